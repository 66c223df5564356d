-- Kind:    read
-- Does:    says which of the given states differ here or are firing
-- KEYS:    timers leases
-- ARGV:
-- ITEM:    key version seq attempt ended
--          (ended: 1 for a tombstone, which seq and attempt say nothing about)
-- Returns: now_us, then for each item that differs or is firing: "index version seq attempt ended firing_ms" (index of the
--          item from 0; firing_ms: how long the mark lasts, 0 if none), or "index missing"
-- Cost:    O(items)
-- Twice:   safe: reads
local timers, leases = KEYS[1], KEYS[2]

local reply, index = { now_us }, 0
for i = 1, #ARGV, 5 do
  local key, version, seq, attempt = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local ended = ARGV[i + 4] == '1'
  local record = redis.call('HGET', timers, key)
  local c = record and parse(record, redis.call('HGET', leases, key))
  if not c then
    reply[#reply + 1] = int(index) .. ' missing'
  elseif c.version ~= version or c.ended ~= ended or not ended and (c.seq ~= seq or c.attempt ~= attempt)
    or c.firing > now_ms then
    reply[#reply + 1] = int(index) .. ' ' .. c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' ..
      (c.ended and '1' or '0') .. ' ' .. int(math.max(0, c.firing - now_ms))
  end
  index = index + 1
end
return reply
