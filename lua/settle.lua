-- Kind:    leased
-- Does:    writes the outcome of a claim to the leased copy if the lease has the token, and ends the lease. Outcomes:
--          release (due as before, at the earliest in delay_ms; after a passed fence in delay_ms), done, next (the next pop on the
--          grid; an overdue pop counts as due now), again (a retry in delay_ms), letter (writes `key reason record` to the dead
--          letters; the lease stays), dead (letter and done). Done leaves nothing, or a tombstone for keep_ms, or a
--          tombstone until the firing mark of an earlier state has passed. The reason says why the callback failed,
--          percent-encoded (- after a success), and stays in a record that goes on. A successful callback has reported
--          the pops left out, so the record forgets the number. An unreadable record goes to the dead letters, whatever the outcome.
--          The script corrects the sums of tags for live copies of rank 0, and the number of tombstones.
-- KEYS:    due timers leases dead tags
-- ARGV:    node
-- ITEM:    key token score_ms outcome delay_ms offset_ms keep_ms away tagged reason
--          (score_ms: as the claim found the score. offset_ms: how long after pops and retries the copy is looked at. away: the
--          copies that must hear of the end before the tombstone may go, - for no copy. tagged: the tags that the claim
--          found on a live copy of rank 0, - for no tags)
-- Returns: now_us, then for each item: "ok" or "lost lease" (lease: the present lease, "-" without a lease)
-- Cost:    O(items · log n + tags)
-- Twice:   safe: the lease has ended, so the second answer is "lost -", or "lost" with a later lease
local due, timers, leases, dead, tags, node

-- <record>
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

-- Timers that are done after a passed fence, without an earlier state's mark and without a tombstone to keep. Most
-- settled one-shot timers belong here; the script removes the timers together. The claim's tags still hold: no script has written
-- the record since.
local done
local function remove_done()
  if #done == 0 then return end
  redis.call('ZREM', due, unpack(done))
  redis.call('HDEL', timers, unpack(done))
  redis.call('HDEL', leases, unpack(done))
  done = {}
end

-- Timers that were claimed and not fired go back unchanged, and together, too.
local given_back, scores
local function give_back()
  if #given_back == 0 then return end
  redis.call('ZREM', due, unpack(given_back))
  redis.call('ZADD', due, unpack(scores))
  redis.call('HDEL', leases, unpack(given_back))
  given_back, scores = {}, {}
end

-- <each>
due, timers, leases, dead, tags = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
node = ARGV[1]
done, given_back, scores, counted = {}, {}, {}, nil

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
