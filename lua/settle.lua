-- Kind:    leased
-- Does:    writes the outcome of a claim to the leased copy, if the lease is still this token's, and ends the lease:
--          release (due again as before, at the earliest in delay_ms), done, next (the next pop on the grid), again (in
--          delay_ms, but not past the next pop), dead (to the dead letters as `key reason record`, then as done). Done
--          leaves nothing, or a tombstone for keep_ms, or one for as long as an earlier state's firing mark lasts. A reason
--          is why the callback failed, percent-encoded (- if it did not), and stays in a record that goes on. A
--          record that can't be read goes to the dead letters whatever the outcome.
-- KEYS:    due timers leases dead
-- ARGV:    node grace_ms
-- ITEM:    key token outcome delay_ms pops skew_ms keep_ms reason
-- Returns: now_us, then for each item: "ok" or "lost lease" (the lease that is there, "-" if none)
-- Cost:    O(items · log n)
-- Twice:   safe: the lease is gone, so the second is "lost -" or "lost" to who leased it since
local due, timers, leases, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local node, grace_ms = ARGV[1], tonumber(ARGV[2])

local function encode(text)
  return (string.gsub(text, '[^A-Za-z0-9._~-]', function(c) return string.format('%%%02X', string.byte(c)) end))
end

local function failure_of(reason) return node .. ':' .. int(now_ms) .. ':' .. reason end

local function put(key, score, c)
  redis.call('ZREM', due, key)
  redis.call('ZADD', due, int(score), key)
  redis.call('HSET', timers, key, format(c))
  redis.call('HDEL', leases, key)
end

local function finish(key, c, keep_ms)
  local life = math.max(keep_ms, c and c.firing - now_ms or 0)
  if life <= 0 then
    redis.call('ZREM', due, key)
    redis.call('HDEL', timers, key)
    redis.call('HDEL', leases, key)
    return
  end
  c.body, c.failure, c.tags = '', '-', '-'
  put(key, now_ms + life, c)
end

local reply, accepted = { now_us }, 0
for i = 3, #ARGV, 8 do
  local key, token, outcome, delay_ms = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local pops, skew_ms, keep_ms, reason = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), ARGV[i + 7]
  local lease, record = redis.call('HGET', leases, key) or '-', redis.call('HGET', timers, key)
  local foreign = fired(lease, token)
  if not record or not (lease == token or foreign) then
    reply[#reply + 1] = 'lost ' .. lease
  else
    accepted = accepted + 1
    reply[#reply + 1] = 'ok'
    local c = parse(record)
    if not c then outcome, reason = 'dead', reason ~= '-' and reason or 'unreadable' end
    if c and foreign then c.firing = foreign end
    if outcome == 'dead' then
      redis.call('ZREM', due, key)
      redis.call('ZADD', dead, int(now_ms), encode(key) .. ' ' .. reason .. ' ' .. record)
    end
    if outcome == 'dead' or outcome == 'done' then
      finish(key, c, c and keep_ms or 0)
    else
      local nth = c.start + c.rank * skew_ms
      local score = now_ms + delay_ms
      if outcome == 'again' and c.seq < pops and score >= nth + (c.seq + 1) * c.interval then outcome = 'next' end
      if outcome == 'next' then
        c.seq, c.attempt = c.seq + 1, 0
        c.failure = reason ~= '-' and failure_of(reason) or '-'
        score = nth + c.seq * c.interval
      elseif outcome == 'again' then
        c.failure = failure_of(reason)
      else
        local held_until = tonumber(redis.call('ZSCORE', due, key) or '') or 0
        if not foreign then score = math.max(score, held_until - grace_ms) end
      end
      put(key, score, c)
    end
  end
end
if accepted > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
