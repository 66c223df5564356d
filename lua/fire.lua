-- Kind:    leased
-- Does:    the fence: is the lease still this token's, and the timer due? Then an overdue recurring timer goes to its
--          latest pop, the attempt is counted, the timer marked as firing until now + limit, and others may take over
--          at now + hold. A token that has fired already renews both and does not count.
-- KEYS:    due timers leases
-- ARGV:    limit_ms hold_ms
-- ITEM:    key token score_ms pops not_after_ms
--          (score_ms: what the claim found)
-- Returns: now_us, then for each item: "status version seq attempt due_ms wait_ms"; status passed, early (due in
--          wait_ms), lost (the lease is not this token's), late (after not_after_ms); but for passed the rest may be 0
-- Cost:    O(items · log n)
-- Twice:   safe: the second renews
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local limit_ms, hold_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

-- Records, which may be a megabyte each, are read few together.
local together = 50
local keys, records, held = {}, nil, nil
for i = 3, #ARGV, 5 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end

local function read_page(first)
  local last = math.min(first + together - 1, #keys)
  records = redis.call('HMGET', timers, unpack(keys, first, last))
  held = redis.call('HMGET', leases, unpack(keys, first, last))
end

-- What passed is written together, at the end of its page.
local scores, changed, marks, passed = {}, {}, {}, 0
local function write_page()
  if #scores == 0 then return end
  redis.call('ZREM', due, scores[2])
  redis.call('ZADD', due, unpack(scores))
  redis.call('HSET', timers, unpack(changed))
  redis.call('HSET', leases, unpack(marks))
  scores, changed, marks = {}, {}, {}
end

-- What the fence may change of a live record, and what stands between and behind that, unread.
local function parse_head(record)
  if string.byte(record, -1) ~= 125 then return nil end -- no {json}
  local version, seq, attempt, place, start, interval, firing, behind =
    string.match(record, '^(%x+) (%d+) (%d+) (%d+ %d+ %S+ %S+ (%-?%d+) (%d+)) (%S+) ()')
  if not version then return nil end
  return {
    version = version, seq = tonumber(seq), attempt = tonumber(attempt), place = place, start = tonumber(start),
    interval = tonumber(interval), firing = tonumber(firing) or 0, behind = string.sub(record, behind),
  }
end

-- The latest pop that is due, if a recurring timer is overdue by several.
local function go_to_latest(c, pops)
  if pops <= 1 or c.interval <= 0 then return end
  local latest = math.min(pops, math.floor((now_ms - c.start) / c.interval))
  if latest > c.seq then c.seq, c.attempt = latest, 0 end
end

local next_look, mark = int(now_ms + hold_ms), now_ms + limit_ms

-- pass counts the attempt, once for a token, and marks the timer as firing.
local function pass(key, c, token, foreign, pops)
  if not foreign then
    foreign = c.firing > now_ms and c.firing or 0
    go_to_latest(c, pops)
    c.attempt = c.attempt + 1
  end
  local n = #scores
  scores[n + 1], scores[n + 2] = next_look, key
  changed[n + 1], changed[n + 2] = key, c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' .. c.place .. ' ' ..
    int(math.max(mark, foreign)) .. ' ' .. c.behind
  marks[n + 1], marks[n + 2] = key, token .. ' ' .. int(foreign)
  passed = passed + 1
end

local reply, seen, item = { now_us }, {}, 0
for i = 3, #ARGV, 5 do
  local key, token, score = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local pops, not_after_ms = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local nth = item % together + 1
  if nth == 1 or seen[key] then
    write_page()
    if nth == 1 then read_page(item + 1) end
  end
  local lease, record = held[nth] or '', records[nth]
  if seen[key] then lease, record = redis.call('HGET', leases, key) or '', redis.call('HGET', timers, key) end
  seen[key], item = true, item + 1
  local foreign = fired(lease, token)
  local c = (lease == token or foreign) and record and parse_head(record)
  local status, wait = 'passed', 0
  if not c then
    status = 'lost'
  elseif now_ms > not_after_ms then
    status = 'late'
  elseif not foreign and score > now_ms then
    status, wait = 'early', score - now_ms
  else
    pass(key, c, token, foreign, pops)
  end
  if c then
    reply[item + 1] = status .. ' ' .. c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' ..
      int(c.start + c.seq * c.interval) .. ' ' .. int(wait)
  else
    reply[item + 1] = status .. ' 0 0 0 0 0'
  end
end
write_page()
if passed > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
