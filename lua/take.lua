-- Kind:    leased
-- Does:    leases the named timers that are due and not leased, each until now + grace: for a backup that came due and
--          asks for the better copy
-- KEYS:    due timers leases
-- ARGV:    node counter grace_ms not_after_ms
-- ITEM:    key
-- Returns: now_us, then for each key: "status wait_ms score_ms previous_lease", record; status got, leased (for
--          wait_ms), waiting (due in wait_ms), ended, missing; record only with got; after not_after_ms: now_us, "late"
-- Cost:    O(keys · log n)
-- Twice:   safe: what the first leased is leased
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local node, counter, grace_ms, not_after_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if now_ms > not_after_ms then return { now_us, 'late' } end

local token = node .. ':' .. counter .. ':' .. int(now_ms)
local reply, got = { now_us }, {}
for i = 5, #ARGV do
  local key = ARGV[i]
  local record, lease = redis.call('HGET', timers, key), redis.call('HGET', leases, key)
  local score = tonumber(redis.call('ZSCORE', due, key) or '') or 0
  local status, wait, answer = 'got', 0, ''
  if not record then
    status = 'missing'
  elseif (parse(record) or {}).ended then
    status = 'ended'
  elseif score > now_ms then
    status, wait = lease and 'leased' or 'waiting', score - now_ms
  elseif got[key] then
    status, wait = 'leased', grace_ms
  else
    -- What a passed fence noted in the lease goes into the record, since the lease is overwritten.
    local c = lease and parse(record, lease)
    got[key], got[#got + 1], answer = c and format(c) or record, key, c and format(c) or record
  end
  reply[#reply + 1] = status .. ' ' .. int(wait) .. ' ' .. int(score) .. ' ' .. (lease or '-')
  reply[#reply + 1] = answer
end

for _, key in ipairs(got) do
  redis.call('ZREM', due, key)
  redis.call('ZADD', due, int(now_ms + grace_ms), key)
  redis.call('HSET', timers, key, got[key])
  redis.call('HSET', leases, key, token)
end
if #got > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
