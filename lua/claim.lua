-- Kind:    leased
-- Does:    leases up to limit timers that are due within the horizon (leased ones: whose lease has ended), each until
--          max(due, now) + grace; buries, and no longer counts, tombstones whose life has ended, unless that is less than keep_tombstones_ms ago:
--          then it looks again in 10 s; leases those that name copies away; leaves a retry to other nodes than the one that
--          failed for 1 s, but not in the last 0.5 s before the timer's next pop, if told so, reading past it. With neglected_ms it leases only what another node, who polls
--          these timers, has left: what is overdue by so long, retries that others failed at, and ended leases. Leaves records
--          of a later format to nodes that can read them, for 2 s; then looks at them again in 10 s
-- KEYS:    due timers leases tags
-- ARGV:    horizon_ms limit node counter grace_ms leave_own_retries not_after_ms max_bytes neglected_ms
--          keep_tombstones_ms
--          (max_bytes: of records; the one that passes it is the last. neglected_ms: 0 for all that is due)
-- Returns: now_us, then for each leased timer: "score_ms previous_lease", key, record (score as before the claim,
--          previous_lease "-" if there was none), and last "more later" if either is not 0 (more: 1 if a bound was reached
--          where more may be due; later: records of a later format that are looked at again in 10 s);
--          after not_after_ms: now_us, "late"
-- Cost:    O(log n + limit + entries read past), each with one HMGET field of records and leases
-- Twice:   safe: what the first leased is leased; the second gets what comes after it
local due, timers, leases, tags = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local horizon_ms, limit, node, counter = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local grace_ms, leave_own_retries = tonumber(ARGV[5]), ARGV[6] == '1'
local not_after_ms, max_bytes, neglected_ms = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local keep_tombstones_ms = tonumber(ARGV[10])

if now_ms > not_after_ms then return { now_us, 'late' } end

-- Redis does nothing else meanwhile, so few records, which may be a megabyte
-- each, are read together, and few tombstones buried in one call.
local together, max_buried, max_left, look_again_ms, leave_later_ms = 50, 500, 200, 10000, 2000

if neglected_ms > 0 then horizon_ms = 0 end

local token = node .. ':' .. counter .. ':' .. int(now_ms)
local reply, scores, tokens, folded, buried = { now_us }, {}, {}, {}, {}
local taken, bytes, left, kept, put_off = 0, 0, 0, 0, 0

local function enough() return taken >= limit or bytes >= max_bytes or #buried + kept + put_off >= max_buried end

-- What can't be read is no tombstone: it is claimed, and ends among the dead letters.
local function tombstone(record)
  local c = parse(record)
  return c and c.ended and c or nil
end

local function look(key, at)
  scores[#scores + 1], scores[#scores + 2] = int(at), key
end

-- Who failed at a retry: nil if it is none.
local function failed_by(record)
  if string.sub(record, 33, 35) == '000' then return nil end
  return string.match(string.sub(record, head_width + 1, (body_of(record) or 0) - 1), ' failure=([^: ]+)')
end

-- When the pop behind the one that is retried is due: math.huge if there is none.
local function next_due(record)
  local c = parse(record)
  local repeat_for = c and string.match(c.body, '"repeat_for_ms":(%d+)')
  if not repeat_for or (c.seq + 1) * c.interval > tonumber(repeat_for) then return math.huge end
  return c.start + (c.seq + 1) * c.interval
end

-- What is left to somebody else for now: to other nodes, a retry of which this node's attempt was the one that failed; to
-- this node, what another polls and has not had the time for.
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

-- What a passed fence noted in the lease goes into the record, since the lease is overwritten.
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
    return look(key, now_ms + look_again_ms)
  end
  local grave = string.byte(record, 2) == 84 and tombstone(record)
  if grave and score > now_ms then return end
  if grave and now_ms - score < keep_tombstones_ms then
    kept = kept + 1
    return look(key, now_ms + look_again_ms)
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
  look(key, math.max(score, now_ms) + grace_ms)
  tokens[2 * taken - 1], tokens[2 * taken] = key, token
  reply[3 * taken - 1] = int(score) .. ' ' .. (lease or '-')
  reply[3 * taken], reply[3 * taken + 1] = key, record
end

-- Pages grow, so that reading past many costs no more than they are.
local offset, size = 0, math.max(math.min(limit, together), 4)
repeat
  local page = redis.call('ZRANGEBYSCORE', due, '-inf', int(now_ms + horizon_ms), 'WITHSCORES', 'LIMIT', offset, size)
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
