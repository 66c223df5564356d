-- Kind:    leased
-- Does:    leases up to limit timers that are due within the horizon (leased ones: whose lease has ended), each until
--          max(due, now) + grace; buries tombstones whose life has ended; leaves a retry to other nodes than the one
--          that failed for 1 s, if told so, reading past it
-- KEYS:    due timers leases
-- ARGV:    horizon_ms limit node counter grace_ms leave_own_retries not_after_ms max_bytes
--          (max_bytes: of records; the one that passes it is the last)
-- Returns: now_us, then for each leased timer: "score_ms previous_lease", key, record (score as before the claim,
--          previous_lease "-" if there was none); after not_after_ms: now_us, "late"
-- Cost:    O(limit + entries read past), each with one HMGET field of records and leases
-- Twice:   safe: what the first leased is leased; the second gets what comes after it
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local horizon_ms, limit, node, counter = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local grace_ms, leave_own_retries = tonumber(ARGV[5]), ARGV[6] == '1'
local not_after_ms, max_bytes = tonumber(ARGV[7]), tonumber(ARGV[8])

if now_ms > not_after_ms then return { now_us, 'late' } end

local token = node .. ':' .. counter .. ':' .. int(now_ms)
local reply, scores, tokens, buried = { now_us }, {}, {}, {}
-- Small pages: a record may be a megabyte, and Redis does nothing else meanwhile.
local size = math.min(limit, 50)
local offset, taken, bytes = 0, 0, 0
while taken < limit and bytes < max_bytes do
  local page = redis.call('ZRANGEBYSCORE', due, '-inf', int(now_ms + horizon_ms), 'WITHSCORES', 'LIMIT', offset, size)
  if #page == 0 then break end
  local keys = {}
  for i = 1, #page, 2 do keys[#keys + 1] = page[i] end
  local records = redis.call('HMGET', timers, unpack(keys))
  local held = redis.call('HMGET', leases, unpack(keys))
  for i, key in ipairs(keys) do
    local score, record, lease = tonumber(page[2 * i]), records[i], held[i]
    if not record then
      buried[#buried + 1] = key
    elseif score <= now_ms or not lease then
      local failed_by, first = string.match(record,
        '^%x+ %d+ %d+ %d+ %d+ %S+ %S+ %-?%d+ %d+ %S+ (%S+) %S+ ?(.?)')
      if failed_by and first ~= '{' then
        if score <= now_ms then buried[#buried + 1] = key end
      elseif taken < limit and bytes < max_bytes
        and not (leave_own_retries and not lease and failed_by == node and now_ms < score + 1000) then
        taken, bytes = taken + 1, bytes + #record
        scores[2 * taken - 1], scores[2 * taken] = int(math.max(score, now_ms) + grace_ms), key
        tokens[2 * taken - 1], tokens[2 * taken] = key, token
        reply[3 * taken - 1] = int(score) .. ' ' .. (lease or '-')
        reply[3 * taken], reply[3 * taken + 1] = key, record
      end
    end
  end
  if #keys < size then break end
  offset = offset + #keys
end

for first = 1, #buried, 1000 do
  local keys = { unpack(buried, first, math.min(first + 999, #buried)) }
  redis.call('ZREM', due, unpack(keys))
  redis.call('HDEL', timers, unpack(keys))
  redis.call('HDEL', leases, unpack(keys))
end
if taken > 0 then
  redis.call('ZREM', due, scores[2])
  redis.call('ZADD', due, unpack(scores))
  redis.call('HSET', leases, unpack(tokens))
end
if taken > 0 or #buried > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
