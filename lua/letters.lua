-- Kind:    read
-- Does:    lists dead letters, the newest first, from a position on. A letter may be a megabyte, so the script reads each letter alone
-- KEYS:    dead
-- ARGV:    from_ms behind since_ms most bytes
--          (from_ms and since_ms: the scores of the newest and the oldest listed letter. behind: a dash and the begin of a
--          letter; at from_ms the script lists only letters that sort before the begin; empty for all letters. most, bytes: the
--          greatest number and the greatest total length of letters; the first letter may be longer)
-- Returns: now_us, "more" or "end", then for each letter: the score, the letter
-- Cost:    O(letters · log n)
-- Twice:   safe: reads
local dead = KEYS[1]
local from_ms, behind, since_ms, most, bytes = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

-- Compares byte by byte, in the order of sorted sets: Lua's own comparison follows the server's locale.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local reply, listed, size = { now_us, 'end' }, 0, 0
local score, level = from_ms, 0 -- level: how many letters with the score were read
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
