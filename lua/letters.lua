-- Kind:    read
-- Does:    lists dead letters, the newest first, from a position on. They may be a megabyte each, so each is looked at by itself
-- KEYS:    dead
-- ARGV:    from_ms behind since_ms most bytes
--          (from_ms and since_ms: the newest and the oldest that are listed, as scores. behind: a dash and the
--          beginning of a letter, of those at from_ms only what sorts before that; empty for all. most, bytes: no more
--          than so many, and so long together, but one at least)
-- Returns: now_us, "more" or "end", then for each: its score, the letter
-- Cost:    O(letters · log n)
-- Twice:   safe: reads
local dead = KEYS[1]
local from_ms, behind, since_ms, most, bytes = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

-- Byte by byte, as sorted sets are sorted: Lua compares as the server's locale has it.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local reply, listed, size = { now_us, 'end' }, 0, 0
local score, level = from_ms, 0 -- how many of this score have been looked at
while true do
  local found = redis.call('ZREVRANGEBYSCORE', dead, score, since_ms, 'WITHSCORES', 'LIMIT', level, 1)
  local letter, at = found[1], found[2]
  if not letter then break end
  if at == score then level = level + 1 else score, level = at, 1 end
  if behind == '' or tonumber(at) ~= tonumber(from_ms) or before(letter, string.sub(behind, 2)) then
    if listed == most or listed > 0 and size + #letter > bytes then
      reply[2] = 'more'
      break
    end
    listed, size = listed + 1, size + #letter
    reply[#reply + 1], reply[#reply + 2] = at, letter
  end
end
return reply
