-- Kind:    leased
-- Does:    leases the named timers that are due and not leased, each until now + grace: for a backup that came due and
--          asks for the better copy
-- KEYS:    due timers leases
-- ARGV:    node counter grace_ms not_after_ms
-- ITEM:    key
-- Returns: now_us, then for each key: "status wait_ms score_ms previous_lease", record; status got, leased (for
--          wait_ms), waiting (due in wait_ms), ended, missing; with got the whole record, of others "version seq attempt",
--          of what is missing nothing; after not_after_ms: now_us, "late"
-- Cost:    O(keys · log n)
-- Twice:   safe: what the first leased is leased
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local node, counter, grace_ms, not_after_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if now_ms > not_after_ms then return { now_us, 'late' } end

local token = node .. ':' .. counter .. ':' .. int(now_ms)
local keys = {}
for i = 5, #ARGV do
  local key = ARGV[i]
  keys[#keys + 1] = key
end

-- Records, which may be a megabyte each, are read few together.
local together = 50
local last_of_json = 125
local reply, got, scores, tokens, folded, records, held = { now_us }, {}, {}, {}, {}, nil, nil
for i, key in ipairs(keys) do
  local nth = (i - 1) % together + 1
  if nth == 1 then
    records = redis.call('HMGET', timers, unpack(keys, i, math.min(i + together - 1, #keys)))
    held = redis.call('HMGET', leases, unpack(keys, i, math.min(i + together - 1, #keys)))
  end
  local record, lease = records[nth], held[nth]
  local score = tonumber(record and redis.call('ZSCORE', due, key) or '') or 0
  local status, wait, answer = 'got', 0, ''
  if not record then
    status = 'missing'
  elseif string.byte(record, -1) ~= last_of_json and (parse(record) or {}).ended then
    status = 'ended'
  elseif score > now_ms then
    status, wait = lease and 'leased' or 'waiting', score - now_ms
  elseif got[key] then
    status, wait = 'leased', grace_ms
  else
    -- What a passed fence noted in the lease goes into the record, since the lease is overwritten.
    local c = lease and string.find(lease, ' ', 1, true) and parse(record, lease)
    answer = c and format(c) or record
    if c then folded[#folded + 1], folded[#folded + 2] = key, answer end
    got[key] = true
    scores[#scores + 1], scores[#scores + 2] = int(now_ms + grace_ms), key
    tokens[#tokens + 1], tokens[#tokens + 2] = key, token
  end
  if record and answer == '' then
    local version, state = string.match(record, '^(%x+) (%d+ %d+)')
    local noted = lease and string.match(lease, ' %d+ %d+ (%d+ %d+)$')
    answer = (version or '0') .. ' ' .. (noted or state or '0 0')
  end
  reply[#reply + 1] = status .. ' ' .. int(wait) .. ' ' .. int(score) .. ' ' .. (lease or '-')
  reply[#reply + 1] = answer
end

if #scores > 0 then
  redis.call('ZREM', due, scores[2])
  redis.call('ZADD', due, unpack(scores))
  redis.call('HSET', leases, unpack(tokens))
  if #folded > 0 then redis.call('HSET', timers, unpack(folded)) end
  redis.call('HINCRBY', timers, '#', 1)
end
return reply
