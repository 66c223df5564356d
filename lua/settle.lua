-- Kind:    leased
-- Does:    writes the outcome of a claim to the leased copy, if the lease is still this token's, and ends the lease:
--          release (due again as before, at the earliest in delay_ms), done, next (the next pop on the grid; one that is overdue
--          is looked at as if it were due now), again (a retry in delay_ms), letter (to the dead letters as `key reason record`; the lease stays), dead (letter and done). Done
--          leaves nothing, or a tombstone for keep_ms, or one for as long as an earlier state's firing mark lasts. A reason
--          is why the callback failed, percent-encoded (- if it did not), and stays in a record that goes on; a callback that
--          did not fail has told of the pops left out. A
--          record that can't be read goes to the dead letters whatever the outcome. The sums of tags go with the live
--          copies of rank 0, the number of tombstones with these.
-- KEYS:    due timers leases dead tags
-- ARGV:    node
-- ITEM:    key token score_ms outcome delay_ms offset_ms keep_ms away tagged reason
--          (score_ms: what the claim found. offset_ms: how long after its pops and retries this copy is looked at. away: the
--          copies that must hear of it before the tombstone may go, - for none. tagged: the tags that the claim found on a live
--          copy of rank 0, - for none)
-- Returns: now_us, then for each item: "ok" or "lost lease" (the lease that is there, "-" if none)
-- Cost:    O(items · log n + tags)
-- Twice:   safe: the lease is gone, so the second is "lost -" or "lost" to who leased it since
local due, timers, leases, dead, tags = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
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
  if c then count(c, -1) end
  local life = math.max(keep_ms, c and c.firing - now_ms or 0)
  if life <= 0 then
    redis.call('ZREM', due, key)
    redis.call('HDEL', timers, key)
    redis.call('HDEL', leases, key)
    return
  end
  c.body, c.failure, c.left, c.tags, c.ended = '', '-', 0, '-', true
  count(c, 1)
  put(key, now_ms + life, c)
end

-- What a passed fence says of a one-shot timer that is done: its lease, without an earlier state's mark, and nothing to
-- keep. Most are, and go together. Its tags are those that the claim found, since nothing has written the record meanwhile.
local done = {}
local function remove_done()
  if #done == 0 then return end
  redis.call('ZREM', due, unpack(done))
  redis.call('HDEL', timers, unpack(done))
  redis.call('HDEL', leases, unpack(done))
  done = {}
end

-- What has been claimed and not fired goes back as it was: such go together too.
local given_back, scores = {}, {}
local function give_back()
  if #given_back == 0 then return end
  redis.call('ZREM', due, unpack(given_back))
  redis.call('ZADD', due, unpack(scores))
  redis.call('HDEL', leases, unpack(given_back))
  given_back, scores = {}, {}
end

local function settle(i, lease)
  local key, token, score, outcome, delay_ms = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], tonumber(ARGV[i + 4])
  local offset_ms, keep_ms, away, reason = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), ARGV[i + 7], ARGV[i + 9]
  local record, foreign = redis.call('HGET', timers, key), fired(lease, token)
  if not record or not (lease == token or foreign) then return 'lost ' .. lease end
  if later(record) then return 'lost -' end
  local c = parse(record, lease)
  if not c then outcome, reason = 'dead', reason ~= '-' and reason or 'unreadable' end
  if c and foreign then c.firing = foreign end
  if outcome == 'dead' or outcome == 'letter' then
    local look = redis.call('ZSCORE', due, key)
    redis.call('ZREM', due, key)
    redis.call('ZADD', dead, int(now_ms), encode(key) .. ' ' .. reason .. ' ' .. (foreign and c and format(c) or record))
    if outcome == 'letter' and look then redis.call('ZADD', due, look, key) end
  end
  if outcome == 'letter' then return 'ok' end
  if outcome == 'dead' or outcome == 'done' then
    if c then c.away = union(c.away, away) end
    finish(key, c, c and keep_ms or 0)
    return 'ok'
  end
  local look = now_ms + delay_ms
  if outcome == 'next' then
    c.seq, c.attempt = c.seq + 1, 0
    c.failure, c.left = '-', reason == '-' and 0 or c.left
    if reason ~= '-' then c.failure = failure_of(reason) end
    look = math.max(c.start + c.seq * c.interval, now_ms) + offset_ms
  elseif outcome == 'again' then
    c.failure, look = failure_of(reason), look + offset_ms
  elseif not foreign then
    look = math.max(look, score)
  end
  put(key, look, c)
  return 'ok'
end

local keys = {}
for i = 2, #ARGV, 10 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end
local held = redis.call('HMGET', leases, unpack(keys))

local reply, seen = { now_us }, {}
for i = 2, #ARGV, 10 do
  local key, token, outcome, keep_ms, away, tagged = ARGV[i], ARGV[i + 1], ARGV[i + 3], ARGV[i + 6], ARGV[i + 7], ARGV[i + 8]
  local item = #reply
  local lease = held[item] or '-'
  if seen[key] then
    remove_done()
    give_back()
    lease = redis.call('HGET', leases, key) or '-'
  end
  seen[key] = true
  if outcome == 'done' and keep_ms == '0' and away == '-' and string.sub(lease, 1, #token + 3) == token .. ' 0 ' then
    done[#done + 1] = key
    if tagged ~= '-' then count({ rank = 0, tags = tagged }, -1) end
    reply[item + 1] = 'ok'
  elseif outcome == 'release' and lease == token then
    local delay_ms, score = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 2])
    given_back[#given_back + 1] = key
    scores[#scores + 1], scores[#scores + 2] = int(math.max(now_ms + delay_ms, score)), key
    reply[item + 1] = 'ok'
  else
    reply[item + 1] = settle(i, lease)
  end
end
remove_done()
give_back()
if counted then
  for tag, by in pairs(counted) do
    if by ~= 0 and redis.call('HINCRBY', tags, tag, int(by)) <= 0 then redis.call('HDEL', tags, tag) end
  end
end
return reply
