-- Kind:    leased
-- Does:    writes the outcome of a claim to the leased copy if the lease has the token, and ends the lease. Outcomes:
--          release (due as before, at the earliest in delay_ms; after a passed fence in delay_ms), done, next (the next pop on the
--          grid; an overdue pop counts as due now), again (a retry in delay_ms), letter (writes `key reason record` to the dead
--          letters; the lease stays), dead (letter and done). Done leaves nothing, or a tombstone for keep_ms, or a
--          tombstone until the firing mark of an earlier state has passed. The reason says why the callback failed,
--          percent-encoded (- after a success), and stays in a record that goes on. A successful callback has reported
--          the pops left out, so the record forgets the number. An unreadable record goes to the dead letters, whatever the outcome.
--          The script corrects the sums of tags for live copies of rank 0, and the number of tombstones. With a log of
--          deliveries, the attempt of an accepted outcome goes into the log, last and where Redis takes it.
-- KEYS:    due timers leases dead tags deliveries
--          (deliveries: absent without a log of deliveries)
-- ARGV:    node
--          (node: the node's id; with a log "id most", where most is about how many entries the partition keeps)
-- ITEM:    key token outcome tagged terms
--          (tagged: the tags that the claim found on a live copy of rank 0, - for no tags. terms: - for a success that
--          leaves nothing, or "score delay offset keep away reason", times in ms. They are the score that the claim found, the delay
--          of the outcome, how long after pops and retries the copy is looked at, the life of the tombstone, the copies that must
--          hear of the end before the tombstone may go (- for no copy), and why the callback failed. With a log, a line feed and
--          the text of the attempt may follow; release and letter have no attempt)
-- Returns: now_us, then for each item: "ok" or "lost lease" (lease: the present lease, "-" without a lease)
-- Cost:    O(items · log n + tags), and O(1) an attempt
-- Twice:   safe: the lease has ended, so the second answer is "lost -", or "lost" with a later lease
local due, timers, leases, dead, tags, deliveries, node, most

-- <record>
local function encode(text)
  return (string.gsub(text, '[^A-Za-z0-9._~-]', function(c) return string.format('%%%02X', string.byte(c)) end))
end

local function failure_of(reason) return node .. ':' .. int(now_ms) .. ':' .. reason end

-- Timers that stay are written together, and timers that go are removed together. An entry that is removed first lets
-- a full Redis carry out the rest.
local kept, scores, records, bytes, gone
local max_bytes = 1048576
-- The life of a tombstone of a timer that got another revision during its callback: timing.YoungLife.
local revised_ms = 10000

local function flush()
  if #gone > 0 then
    redis.call('ZREM', due, unpack(gone))
    redis.call('HDEL', timers, unpack(gone))
    redis.call('HDEL', leases, unpack(gone))
  end
  if #kept > 0 then
    redis.call('ZREM', due, kept[1])
    redis.call('ZADD', due, unpack(scores))
    if #records > 0 then redis.call('HSET', timers, unpack(records)) end
    redis.call('HDEL', leases, unpack(kept))
  end
  kept, scores, records, bytes, gone = {}, {}, {}, 0, {}
end

-- Without a record the timer stays as it is.
local function keep(key, score, record)
  kept[#kept + 1] = key
  scores[#scores + 1], scores[#scores + 2] = int(score), key
  if not record then return end
  records[#records + 1], records[#records + 2] = key, record
  bytes = bytes + #record
  if bytes >= max_bytes then flush() end
end

local function finish(key, c, keep_ms)
  if c then count(c, -1) end
  local life = math.max(keep_ms, c and c.firing - now_ms or 0)
  if life <= 0 then
    gone[#gone + 1] = key
    return
  end
  c.body, c.failure, c.left, c.tags, c.rev, c.ended = '', '-', 0, '-', '-', true
  count(c, 1)
  keep(key, now_ms + life, format(c))
end

-- The tombstone of a live record without an earlier state's mark, made from the text of the record. Returns nil if the
-- fence has left no notes in the lease, or the record is unreadable.
local function tombstone_of(record, lease)
  local _, seq, attempt = fence_noted(lease)
  if not seq or string.byte(record, 2) ~= 76 or not readable(record) then return nil end
  local text = '1T' .. string.sub(record, 3, 20) .. string.format('%011d %03d', tonumber(seq), tonumber(attempt)) .. string.sub(record, 36, head_width)
  local body = body_of(record)
  if body == head_width + 2 then return text end
  local words = string.sub(record, head_width + 1, body - 1)
  return text .. (string.match(words, ' hash=%S+') or '') .. (string.match(words, ' away=%S+') or '') .. (string.match(words, ' site=%S+') or '')
end

-- Most ended messages of a stream belong here. The claim's tags still hold: no script has written the record since.
local function bury(key, tombstone, keep_ms, tagged)
  if tagged ~= '-' then count({ rank = 0, tags = tagged }, -1) end
  count({ ended = true }, 1)
  keep(key, now_ms + keep_ms, tombstone)
end

local function read_terms(terms)
  if terms == '-' then return 0, 0, 0, 0, '-', '-' end
  local score, delay_ms, offset_ms, keep_ms, away, reason = string.match(terms, '^(-?%d+) (-?%d+) (-?%d+) (-?%d+) (%S+) (%S+)$')
  return tonumber(score), tonumber(delay_ms), tonumber(offset_ms), tonumber(keep_ms), away, reason
end

-- <each>
due, timers, leases, dead, tags, deliveries = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
node = ARGV[1]
if deliveries then node, most = string.match(node, '^(%S+) (%d+)$') end
kept, gone, counted = {}, {}, nil
local attempts = {}
flush()

local function settle(i, terms, lease, record)
  local key, token, outcome, tagged = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local score, delay_ms, offset_ms, keep_ms, away, reason = read_terms(terms)
  if outcome == 'release' and lease == token then
    keep(key, math.max(now_ms + delay_ms, score))
    return 'ok'
  end
  local foreign = fired(lease, token)
  if not record or not (lease == token or foreign) then return 'lost ' .. lease end
  if later(record) then return 'lost -' end
  local patched = revised(lease, token)
  if patched then keep_ms = math.max(keep_ms, revised_ms) end
  local tombstone = outcome == 'done' and foreign == 0 and not patched and keep_ms > 0 and away == '-' and tombstone_of(record, lease)
  if tombstone then
    bury(key, tombstone, keep_ms, tagged)
    return 'ok'
  end
  local c = parse(record, lease)
  -- A pop that has expired and had no attempt is left out (fire.lua: the mark of such a pop).
  local left_out = c and foreign and c.attempt == 0 and tonumber((fence_noted(lease))) == foreign
  if not c then outcome, reason = 'dead', reason ~= '-' and reason or 'unreadable' end
  if c and foreign then c.firing = foreign end
  if outcome == 'dead' or outcome == 'letter' then
    local look = redis.call('ZSCORE', due, key)
    redis.call('ZREM', due, key)
    redis.call('ZADD', dead, int(now_ms), encode(key) .. ' ' .. reason .. ' ' .. (foreign and c and format(c) or record))
    if look then redis.call('ZADD', due, look, key) end
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
    c.failure, c.left = '-', reason == '-' and 0 or c.left + (left_out and 1 or 0)
    if reason ~= '-' then c.failure = failure_of(reason) end
    look = math.max(c.start + c.seq * c.interval, now_ms) + offset_ms
  elseif outcome == 'again' then
    c.failure, look = failure_of(reason), look + offset_ms
  elseif not foreign then
    look = math.max(look, score)
  end
  keep(key, look, format(c))
  return 'ok'
end

local keys = {}
for i = 2, #ARGV, 5 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end
local held = redis.call('HMGET', leases, unpack(keys))

-- Few records are read together, since a record may be a megabyte.
local together = 50
local reply, seen, records, item = { now_us }, {}, nil, 0
for i = 2, #ARGV, 5 do
  local key, token, outcome, tagged, terms = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local nth = item % together + 1
  if nth == 1 then records = nil end
  item = item + 1
  local attempt = nil
  if deliveries then
    local feed = string.find(terms, '\n', 1, true)
    if feed then
      attempt = string.sub(terms, feed + 1)
      terms = string.sub(terms, 1, feed - 1)
    end
  end
  local lease, again = held[item] or '-', seen[key]
  if again then
    flush()
    lease = redis.call('HGET', leases, key) or '-'
  end
  seen[key] = true
  if terms == '-' and string.sub(lease, 1, #token + 3) == token .. ' 0 ' then
    gone[#gone + 1] = key -- with the claim's tags, as for a tombstone
    if tagged ~= '-' then count({ rank = 0, tags = tagged }, -1) end
    reply[item + 1] = 'ok'
  else
    local record = nil -- a timer that goes back unchanged is not read
    if again then
      record = redis.call('HGET', timers, key)
    elseif outcome ~= 'release' or lease ~= token then
      records = records or redis.call('HMGET', timers, unpack(keys, item - nth + 1, math.min(item - nth + together, #keys)))
      record = records[nth]
    end
    reply[item + 1] = settle(i, terms, lease, record)
  end
  if attempt and reply[item + 1] == 'ok' then attempts[#attempts + 1] = attempt end
end
flush()
if counted then
  for tag, by in pairs(counted) do
    if by ~= 0 and redis.call('HINCRBY', tags, tag, int(by)) <= 0 then redis.call('HDEL', tags, tag) end
  end
end
-- By now the outcomes are written, so an error costs only the entry. The last entry trims the log.
for n = 1, #attempts - 1 do redis.pcall('XADD', deliveries, '*', 'attempt', attempts[n]) end
if #attempts > 0 then redis.pcall('XADD', deliveries, 'MAXLEN', '~', most, '*', 'attempt', attempts[#attempts]) end
return reply
