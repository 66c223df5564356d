-- Kind:    sweep
-- Does:    says how far the sweep of a lane is, after it has noted something: "want" (all is to be swept again, since this
--          shard, or another one, may lack copies), "mark" (a partition has been swept), or nothing ("state")
-- KEYS:    swept
-- ARGV:    what lane partitions identity missed_ms partition epoch at_ms
--          (identity and missed_ms: of want, who this shard is, and how long ago it began to miss what it was to be told, 0 if
--          it did not. partition, epoch and at_ms: of mark, for which epoch, and when that began)
-- Returns: now_us, wanted_ms, missed_ms (as above; 0 once all is swept), identity (that which wanted it last), then for each
--          partition "epoch at_ms"
-- Cost:    O(partitions)
-- Twice:   safe: the second finds the same, or has it swept once more
local swept = KEYS[1]
local what, lane, partitions = ARGV[1], ARGV[2], tonumber(ARGV[3])
local identity, missed_ms = ARGV[4], tonumber(ARGV[5])
local partition, epoch, at_ms = tonumber(ARGV[6]), ARGV[7], ARGV[8]

local wanted_field, missed_field, identity_field = lane .. '.wanted_ms', lane .. '.missed_since_ms', lane .. '.identity'
local function field_of(partition) return lane .. string.format('.%02d', partition) end

local fields = { wanted_field, missed_field, identity_field }
for p = 0, partitions - 1 do fields[#fields + 1] = field_of(p) end
local first_mark = 4
local function read() return redis.call('HMGET', swept, unpack(fields)) end

-- Marks are "epoch at_ms".
local function read_mark(text)
  local swept_for, begun_ms = string.match(text or '', '^(%d+) (%d+)$')
  return tonumber(swept_for or '0'), tonumber(begun_ms or '0')
end

if what == 'want' then
  if missed_ms > 0 then
    local since_ms = math.min(tonumber(redis.call('HGET', swept, missed_field) or '') or now_ms, now_ms - missed_ms)
    redis.call('HSET', swept, missed_field, int(since_ms))
  end
  redis.call('HSET', swept, wanted_field, int(now_ms), identity_field, identity)
elseif what == 'mark' then
  redis.call('HSET', swept, field_of(partition), epoch .. ' ' .. at_ms)
  local all = read()
  local wanted_ms, done = tonumber(all[1] or '0'), true
  for p = 0, partitions - 1 do
    local _, begun_ms = read_mark(all[first_mark + p])
    done = done and begun_ms >= wanted_ms
  end
  if done then redis.call('HDEL', swept, missed_field) end
end

local all = read()
local since_ms = tonumber(all[2] or '')
local reply = { now_us, int(tonumber(all[1] or '0')), since_ms and int(math.max(now_ms - since_ms, 1)) or '0', all[3] or '' }
for p = 0, partitions - 1 do
  local swept_for, begun_ms = read_mark(all[first_mark + p])
  reply[#reply + 1] = int(swept_for) .. ' ' .. int(begun_ms)
end
return reply
