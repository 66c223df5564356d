-- Kind:    sweep
-- Does:    notes how far the sweep of a lane is: "want" (all is to be swept again, since this shard, or another one, may
--          lack copies), or "mark" (a partition has been swept; when all have been that were wanted, this shard misses
--          nothing any more)
-- KEYS:    swept
-- ARGV:    what lane partitions identity missed_ms partition epoch at_ms
--          (identity and missed_ms: of want, who this shard is, and how long ago it began to miss what it was to be told, 0 if
--          it did not. partition, epoch and at_ms: of mark, for which epoch, and when that began)
-- Returns: now_us
-- Cost:    O(partitions)
-- Twice:   safe: the second finds the same, or has it swept once more
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
