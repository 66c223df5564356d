-- Kind:    sweep
-- Does:    notes how far the sweep of a lane is. "want": every partition must be swept again, since this shard or another
--          shard may lack copies. "mark": a partition has been swept. Once all wanted partitions have been swept, the script forgets
--          since when the shard has missed writes and outcomes
-- KEYS:    swept
-- ARGV:    what lane partitions identity missed_ms partition epoch at_ms
--          (identity and missed_ms: for want, the identity of the shard's process, and how long ago the shard began to miss writes and
--          outcomes, 0 if the shard missed nothing. partition, epoch and at_ms: for mark, the partition, the epoch of the sweep,
--          and when the sweep began)
-- Returns: now_us
-- Cost:    O(partitions)
-- Twice:   safe: the second call notes the same, or has the lane swept once more
local swept = KEYS[1]
local what, lane, partitions = ARGV[1], ARGV[2], tonumber(ARGV[3])
local identity, missed_ms = ARGV[4], tonumber(ARGV[5])
local partition, epoch, at_ms = tonumber(ARGV[6]), ARGV[7], ARGV[8]

local wanted_field, missed_field, identity_field = lane .. '.wanted_ms', lane .. '.missed_since_ms', lane .. '.identity'
local function field_of(p) return lane .. string.format('.%02d', p) end

if what == 'want' then
  if missed_ms > 0 then
    local since_ms = math.min(tonumber(redis.call('HGET', swept, missed_field) or '') or now_ms, now_ms - missed_ms)
    redis.call('HSET', swept, missed_field, int(since_ms))
  end
  redis.call('HSET', swept, wanted_field, int(now_ms), identity_field, identity)
  return { now_us }
end

redis.call('HSET', swept, field_of(partition), epoch .. ' ' .. at_ms)
local fields = { wanted_field }
for p = 0, partitions - 1 do fields[#fields + 1] = field_of(p) end
local all = redis.call('HMGET', swept, unpack(fields))
local wanted_ms, done = tonumber(all[1] or '0'), true
for p = 1, partitions do
  local begun_ms = string.match(all[p + 1] or '', '^%d+ (%d+)$')
  done = done and tonumber(begun_ms or '0') >= wanted_ms
end
if done then redis.call('HDEL', swept, missed_field) end
return { now_us }
