-- Kind:    leased
-- Does:    the fence: is the lease still this token's, and the timer due? Then an overdue recurring timer goes to its
--          latest pop, the attempt is counted, the timer marked as firing until now + limit, and others may take over
--          at now + hold. A token that has fired already renews both and does not count.
-- KEYS:    due timers leases
-- ARGV:    limit_ms hold_ms grace_ms
-- ITEM:    key token pops not_after_ms
-- Returns: now_us, then for each item: "status version seq attempt due_ms wait_ms"; status passed, early (due in
--          wait_ms), lost (the lease is not this token's), late (after not_after_ms); but for passed the rest may be 0
-- Cost:    O(items · log n)
-- Twice:   safe: the second renews
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local limit_ms, hold_ms, grace_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local reply, passed = { now_us }, 0
for i = 4, #ARGV, 4 do
  local key, token, pops, not_after_ms = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local lease, record = redis.call('HGET', leases, key) or '', redis.call('HGET', timers, key)
  local foreign = fired(lease, token)
  local c = (lease == token or foreign) and record and parse(record)
  local status, wait = 'passed', 0
  if not c or c.ended then
    status = 'lost'
  elseif now_ms > not_after_ms then
    status = 'late'
  elseif not foreign then
    local score = tonumber(redis.call('ZSCORE', due, key) or '') or 0
    wait = score - grace_ms - now_ms
    if wait > 0 then status = 'early' end
  end
  if status == 'passed' then
    wait = 0
    if not foreign then
      foreign = c.firing > now_ms and c.firing or 0
      local latest = c.seq
      if pops > 1 and c.interval > 0 then
        latest = math.min(pops, math.floor((now_ms - c.start) / c.interval))
      end
      if latest > c.seq then c.seq, c.attempt = latest, 0 end
      c.attempt = c.attempt + 1
    end
    c.firing = math.max(now_ms + limit_ms, foreign)
    redis.call('ZREM', due, key)
    redis.call('ZADD', due, int(now_ms + hold_ms), key)
    redis.call('HSET', timers, key, format(c))
    redis.call('HSET', leases, key, token .. ' ' .. int(foreign))
    passed = passed + 1
  end
  if c then
    reply[#reply + 1] = status .. ' ' .. c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' ..
      int(c.start + c.seq * c.interval) .. ' ' .. int(wait)
  else
    reply[#reply + 1] = status .. ' 0 0 0 0 0'
  end
end
if passed > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
