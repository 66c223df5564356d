-- Kind:    leased
-- Does:    leases up to limit timers that are due within the horizon, each timer until max(due, now) + grace. A leased
--          timer counts as due once the lease has ended.
--          Removes a tombstone when the life is over, and no longer counts the tombstone. A tombstone that names copies in away
--          is leased instead. If the life ended less than keep_tombstones_ms ago, or another site has to be told of the
--          end, the tombstone stays; the script looks again in 10 s.
--          With leave_own_retries, leaves a retry for 1 s to other nodes if this node's attempt failed, and reads past the
--          retry. In the last 0.5 s before the timer's next pop the retry is leased all the same.
--          With neglected_ms, leases only timers that the polling node has left: timers overdue by neglected_ms, retries after
--          another node's failed attempt, and timers with an ended lease.
--          Leaves a record of a later format for 2 s to nodes that can read the record, then looks at the record again in 10 s
-- KEYS:    due timers leases tags marked
-- ARGV:    horizon_ms limit node counter grace_ms leave_own_retries not_after_ms max_bytes neglected_ms
--          keep_tombstones_ms
--          (max_bytes: all records together; the record that reaches the bound is the last. neglected_ms: 0 for all due timers)
-- Returns: now_us, then for each leased timer: "score_ms previous_lease", key, record (score_ms: before the claim;
--          previous_lease: "-" without an earlier lease), and last "more later" if either is not 0 (more: 1 if the script stopped
--          at a bound, and more timers may be due; later: the number of records of a later format that are looked at again
--          in 10 s); after not_after_ms: now_us, "late"
-- Cost:    O(log n + limit + entries read past); an HMGET field of records and of leases for each entry
-- Twice:   safe: the first call's timers are leased; the second call leases the timers behind
local due, timers, leases, tags, marked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local horizon_ms, limit, node, counter = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local grace_ms, leave_own_retries = tonumber(ARGV[5]), ARGV[6] == '1'
local not_after_ms, max_bytes, neglected_ms = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local keep_tombstones_ms = tonumber(ARGV[10])

if now_ms > not_after_ms then return { now_us, 'late' } end

if neglected_ms > 0 then horizon_ms = 0 end
local last_score = int(now_ms + horizon_ms)

-- Most claims find nothing.
if #redis.call('ZRANGEBYSCORE', due, '-inf', last_score, 'LIMIT', 0, 1) == 0 then return { now_us } end

-- <record>
-- Redis does nothing else while a script runs, and a record may be a megabyte. The script therefore reads few records
-- together, and removes few tombstones in a call.
local together, max_buried, max_left, look_again_ms, leave_later_ms = 50, 500, 200, 10000, 2000

local token = node .. ':' .. counter .. ':' .. int(now_ms)
-- When to look at a timer again that is overdue now, and at a record of a later format or a tombstone that stays.
local lease_end, look_again = int(now_ms + grace_ms), int(now_ms + look_again_ms)
local reply, scores, tokens, folded, buried = { now_us }, {}, {}, {}, {}
local taken, bytes, left, kept, put_off = 0, 0, 0, 0, 0
counted = nil

-- Reports whether another site has to be told of the timer yet: then a tombstone stays. Most partitions have no marks.
local marks
local function untold(key)
  marks = marks or redis.call('HLEN', marked)
  return marks > 0 and (redis.call('HGET', marked, key) or redis.call('HGET', marked, '*')) and true
end

local function enough() return taken >= limit or bytes >= max_bytes or #buried + kept + put_off >= max_buried end

-- An unreadable record does not count as a tombstone: the record is claimed, and becomes a dead letter.
local without_words = { ended = true, away = '-' }
local function tombstone(record)
  if #record == head_width then return readable(record) and without_words or nil end
  local c = parse(record)
  return c and c.ended and c or nil
end

local function look(key, at)
  scores[#scores + 1], scores[#scores + 2] = at, key
end

-- The node that failed at the attempt before; nil if the timer waits for no retry.
local function failed_by(record)
  if string.sub(record, 33, 35) == '000' then return nil end
  return string.match(string.sub(record, head_width + 1, (body_of(record) or 0) - 1), ' failure=([^: ]+)')
end

-- The due time of the pop after the retried pop; math.huge if no pop follows.
local function next_due(record)
  local c = parse(record)
  local repeat_for = c and string.match(c.body, '"repeat_for_ms":(%d+)')
  if not repeat_for or (c.seq + 1) * c.interval > tonumber(repeat_for) then return math.huge end
  return c.start + (c.seq + 1) * c.interval
end

-- Reports whether the script leaves a timer to another node for now. The retry after this node's failed attempt is left to
-- all nodes but this node. A timer that another node polls is left to the polling node until overdue by neglected_ms,
-- but not a retry after another node's failed attempt.
local function leave(score, record)
  local own = leave_own_retries and now_ms < score + 1000
  local others = neglected_ms > 0 and now_ms < score + neglected_ms
  if not own and not others then return false end
  local failed = failed_by(record)
  if own and failed == node and now_ms < next_due(record) - 500 then return true end
  if not others or failed ~= nil and failed ~= node then return false end
  left = left + 1
  return true
end

-- Writes the notes of a passed fence into the record, since the claim overwrites the lease.
local function fold(key, record, lease)
  local c = string.find(lease, ' ', 1, true) and parse(record, lease)
  if not c then return record end
  folded[#folded + 1], folded[#folded + 2] = key, format(c)
  return folded[#folded]
end

local function consider(key, score, record, lease)
  if not record then
    buried[#buried + 1] = key
    return
  end
  if lease and score > now_ms then return end
  if later(record) then
    if now_ms - score < leave_later_ms then return end
    put_off = put_off + 1
    return look(key, look_again)
  end
  local grave = string.byte(record, 2) == 84 and tombstone(record)
  if grave and score > now_ms then return end
  if grave and (now_ms - score < keep_tombstones_ms or untold(key)) then
    kept = kept + 1
    return look(key, look_again)
  end
  if grave and grave.away == '-' then
    count(grave, -1)
    buried[#buried + 1] = key
    return
  end
  if taken >= limit or bytes >= max_bytes then return end
  if not lease and leave(score, record) then return end
  if lease then record = fold(key, record, lease) end
  taken, bytes = taken + 1, bytes + #record
  look(key, score > now_ms and int(score + grace_ms) or lease_end)
  tokens[2 * taken - 1], tokens[2 * taken] = key, token
  reply[3 * taken - 1] = int(score) .. ' ' .. (lease or '-')
  reply[3 * taken], reply[3 * taken + 1] = key, record
end

-- Each page is twice as long as the page before, so the cost grows only in proportion to the entries read past.
local offset, size = 0, math.max(math.min(limit, together), 4)
repeat
  local page = redis.call('ZRANGEBYSCORE', due, '-inf', last_score, 'WITHSCORES', 'LIMIT', offset, size)
  for first = 1, #page, 2 * together do
    if enough() then break end
    local keys = {}
    for i = first, math.min(first + 2 * together, #page) - 1, 2 do keys[#keys + 1] = page[i] end
    local records = redis.call('HMGET', timers, unpack(keys))
    local held = redis.call('HMGET', leases, unpack(keys))
    for i, key in ipairs(keys) do consider(key, tonumber(page[first + 2 * i - 1]), records[i], held[i]) end
  end
  local last = #page < 2 * size
  offset, size = offset + size, 2 * size
until last or enough() or neglected_ms > 0 and left >= max_left

if #buried > 0 then
  redis.call('ZREM', due, unpack(buried))
  redis.call('HDEL', timers, unpack(buried))
  redis.call('HDEL', leases, unpack(buried))
end
if #scores > 0 then
  redis.call('ZREM', due, scores[2])
  redis.call('ZADD', due, unpack(scores))
  if taken > 0 then redis.call('HSET', leases, unpack(tokens)) end
  if #folded > 0 then redis.call('HSET', timers, unpack(folded)) end
end
if counted then
  for tag, by in pairs(counted) do
    if redis.call('HINCRBY', tags, tag, int(by)) <= 0 then redis.call('HDEL', tags, tag) end
  end
end
local more = enough() or taken > 0 and left >= max_left
if more or put_off > 0 then reply[#reply + 1] = (more and '1 ' or '0 ') .. int(put_off) end
return reply
