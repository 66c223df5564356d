-- Kind:    read
-- Does:    reads whole timers: for GET, the sweep, dashboards
-- KEYS:    due timers leases
-- ARGV:
-- ITEM:    key
-- Returns: now_us, then for each key: record, score_ms, lease ("" for a missing value)
-- Cost:    O(keys)
-- Twice:   safe: reads
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]

local reply = { now_us }
for i = 1, #ARGV do
  local key = ARGV[i]
  reply[#reply + 1] = redis.call('HGET', timers, key) or ''
  reply[#reply + 1] = redis.call('ZSCORE', due, key) or ''
  reply[#reply + 1] = redis.call('HGET', leases, key) or ''
end
return reply
