-- Kind:    read
-- Does:    looks at random copies of a partition, and counts the first copies of live timers among them
-- KEYS:    timers
-- ARGV:    limit max_bytes
--          (max_bytes: the record that reaches the bound is the last)
-- Returns: now_us, the number of all copies, the number of copies that the script looked at, the number of first copies
--          of live timers among these copies
-- Cost:    O(limit)
-- Twice:   safe: reads
local timers = KEYS[1]
local limit, max_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])

-- A record begins with format, state, version, seq, attempt and rank, in places that are the same for every timer.
local rank_at, bytes, looked, first = 37, 0, 0, 0
for _, key in ipairs(redis.call('HRANDFIELD', timers, limit)) do
  if bytes >= max_bytes then break end
  local record = redis.call('HGET', timers, key)
  bytes, looked = bytes + #record, looked + 1
  if string.byte(record, 2) == 76 and string.sub(record, rank_at, rank_at + 1) == '00' then first = first + 1 end
end
return { now_us, int(redis.call('HLEN', timers)), int(looked), int(first) }
