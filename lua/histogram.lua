-- Kind:    read
-- Does:    counts copies by when a node must look at them, in buckets of equal length
-- KEYS:    due
-- ARGV:    from_ms step_ms buckets
-- Returns: now_us, then the number of copies for each bucket
-- Cost:    O(buckets · log n)
-- Twice:   safe: reads
local due = KEYS[1]
local from_ms, step_ms, buckets = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local reply = { now_us }
for n = 0, buckets - 1 do
  local first_ms = from_ms + n * step_ms
  reply[n + 2] = int(redis.call('ZCOUNT', due, int(first_ms), '(' .. int(first_ms + step_ms)))
end
return reply
