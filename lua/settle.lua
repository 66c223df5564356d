-- Kind:    leased
-- Does:    writes the outcome of a claim to the leased copy, if the lease is still this token's, and ends the lease:
--          release (due again as before, at the earliest in delay_ms), done, next (the next pop on the grid), again (in
--          delay_ms, but not past the next pop), dead (to the dead letters as `key reason record`, then as done). Done
--          leaves nothing, or a tombstone for keep_ms, or one for as long as an earlier state's firing mark lasts. A reason
--          is why the callback failed, percent-encoded (- if it did not), and stays in a record that goes on. A
--          record that can't be read goes to the dead letters whatever the outcome.
-- KEYS:    due timers leases dead
-- ARGV:    node
-- ITEM:    key token score_ms outcome delay_ms pops skew_ms keep_ms reason
--          (score_ms: what the claim found)
-- Returns: now_us, then for each item: "ok" or "lost lease" (the lease that is there, "-" if none)
-- Cost:    O(items · log n)
-- Twice:   safe: the lease is gone, so the second is "lost -" or "lost" to who leased it since
local due, timers, leases, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local node = ARGV[1]

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

-- What a passed fence says of a one-shot timer that is done: its lease, without an earlier state's mark, and nothing to
-- keep. Most are, and go together.
local done = {}
local function remove_done()
  if #done == 0 then return end
  redis.call('ZREM', due, unpack(done))
  redis.call('HDEL', timers, unpack(done))
  redis.call('HDEL', leases, unpack(done))
  done = {}
end

local function settle(i, lease)
  local key, token, score, outcome, delay_ms = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], tonumber(ARGV[i + 4])
  local pops, skew_ms, keep_ms, reason = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7]), ARGV[i + 8]
  local record, foreign = redis.call('HGET', timers, key), fired(lease, token)
  if not record or not (lease == token or foreign) then return 'lost ' .. lease end
  local c = parse(record, lease)
  if not c then outcome, reason = 'dead', reason ~= '-' and reason or 'unreadable' end
  if c and foreign then c.firing = foreign end
  if outcome == 'dead' then
    redis.call('ZREM', due, key)
    redis.call('ZADD', dead, int(now_ms), encode(key) .. ' ' .. reason .. ' ' .. (foreign and c and format(c) or record))
  end
  if outcome == 'dead' or outcome == 'done' then
    finish(key, c, c and keep_ms or 0)
    return 'ok'
  end
  local nth = c.start + c.rank * skew_ms
  local look = now_ms + delay_ms
  if outcome == 'again' and c.seq < pops and look >= nth + (c.seq + 1) * c.interval then outcome = 'next' end
  if outcome == 'next' then
    c.seq, c.attempt = c.seq + 1, 0
    c.failure = reason ~= '-' and failure_of(reason) or '-'
    look = nth + c.seq * c.interval
  elseif outcome == 'again' then
    c.failure = failure_of(reason)
  elseif not foreign then
    look = math.max(look, score)
  end
  put(key, look, c)
  return 'ok'
end

local keys = {}
for i = 2, #ARGV, 9 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end
local held = redis.call('HMGET', leases, unpack(keys))

local reply, accepted, seen = { now_us }, 0, {}
for i = 2, #ARGV, 9 do
  local key, token, outcome, keep_ms = ARGV[i], ARGV[i + 1], ARGV[i + 3], tonumber(ARGV[i + 7])
  local item = #reply
  local lease = held[item] or '-'
  if seen[key] then
    remove_done()
    lease = redis.call('HGET', leases, key) or '-'
  end
  seen[key] = true
  if outcome == 'done' and keep_ms == 0 and string.sub(lease, 1, #token + 3) == token .. ' 0 ' then
    done[#done + 1] = key
    reply[item + 1] = 'ok'
  else
    reply[item + 1] = settle(i, lease)
  end
  if reply[item + 1] == 'ok' then accepted = accepted + 1 end
end
remove_done()
if accepted > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
