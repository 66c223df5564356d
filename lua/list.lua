-- Kind:    read
-- Does:    reports the heads of copies, for resynchronisation: first of the given copies. With a limit, also of copies behind
--          a place in the order of scores, except leased copies. Copies with the same score are in the order of the bytes of
--          the keys. If the place is at most hot_ms from now, the script also reports all leased copies, whatever the scores
-- KEYS:    due timers leases
-- ARGV:    after_ms after_key limit hot_ms
-- ITEM:    key
-- Returns: now_us, the place of the last copy in the page ("score_ms key", "" at the end of the list), then for each copy:
--          key, "look_ms taken_ms bytes head" (look_ms: the score; taken_ms: when the copy was leased, 0 without a lease;
--          bytes: length of the record; head: the record's head), "" for a copy that is missing or unreadable
-- Cost:    O(log² n + limit + keys), and O(leases) if leased copies are reported; a record for each copy, about 4 MB a page at most
-- Twice:   safe: reads
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local after_ms, after_key, limit, hot_ms = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

-- <record>

-- Redis does nothing else while a script runs, and a record may be a megabyte.
local max_bytes = 4000000

local reply = { now_us, '' }

local function tell(key, lease)
  local record, score = redis.call('HGET', timers, key), redis.call('ZSCORE', due, key)
  local c = record and score and parse(record, lease)
  reply[#reply + 1] = key
  reply[#reply + 1] = c and int(tonumber(score)) .. ' ' .. (lease and string.match(lease, '^[^:]*:%d+:(%d+)') or '0') .. ' ' ..
    int(#record) .. ' ' .. head_of(c) or ''
  return record and #record or 0
end

for i = 5, #ARGV do
  local key = ARGV[i]
  tell(key, redis.call('HGET', leases, key))
end

-- Compares bytes, in the order of sorted sets: Lua's own comparison follows the server's locale.
local function behind(key)
  for n = 1, math.max(#key, #after_key) do
    local a, b = string.byte(key, n) or -1, string.byte(after_key, n) or -1
    if a ~= b then return a > b end
  end
  return false
end

if limit > 0 then
  local at = int(after_ms)
  local first = redis.call('ZCOUNT', due, '-inf', '(' .. at)
  local last = first + redis.call('ZCOUNT', due, at, at)
  while first < last do
    local middle = math.floor((first + last) / 2)
    if behind(redis.call('ZRANGE', due, int(middle), int(middle))[1]) then last = middle else first = middle + 1 end
  end
  local page = redis.call('ZRANGE', due, int(first), int(first + limit - 1))
  local bytes = 0
  for i, key in ipairs(page) do
    if not redis.call('HGET', leases, key) then bytes = bytes + tell(key, false) end
    if i == limit or bytes >= max_bytes then
      reply[2] = int(tonumber(redis.call('ZSCORE', due, key))) .. ' ' .. key
      break
    end
  end
  if after_ms <= now_ms + hot_ms then
    for _, key in ipairs(redis.call('HKEYS', leases)) do tell(key, redis.call('HGET', leases, key)) end
  end
end
return reply
