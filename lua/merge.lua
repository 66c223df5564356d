-- Kind:    merge
-- Does:    "become this state if it is newer than yours": put (a client's create or replace: refused if a live timer has
--          another rf), once (a create that does nothing where a live timer or a body hash is), anew (likewise where a live timer or
--          the same body hash is; without a specification it is a tombstone), live (adopt, restore),
--          onto (live, onto a live copy, whose rank stays: its look_ms is that of rank 0), look (nothing: says what is
--          there), gone (a client's delete; the same once more adds to away), bury (gone, onto a copy that is there), done (an outcome told to another copy: removes exactly its
--          predecessor, leaves a tombstone on what is older and on nothing), next and again (outcomes that leave a pop:
--          the copy of the same version goes on; nothing is made of nothing, nor of another version; a next pop that is overdue is
--          looked at as if it were due now), drop (removes the
--          same version, if that isn't further on), leave
--          (removes exactly this state, that of seq 0 is a tombstone) and rank (gives exactly this state another rank),
--          both but where a lease or a mark lasts. All but look, leave and rank end a lease. A body hash, a tombstone's away
--          and a firing mark that has not passed are kept. An item with a token is a leased write: it does nothing unless the lease
--          is that token's.
--          The sums of tags go with the live copies of rank 0, the number of tombstones with these.
-- KEYS:    due timers leases tags
-- ARGV:    not_after_ms
-- ITEM:    kind key head tail start look_ms more
--          (head and tail: the record before and behind its start_ms. start: of the grid, in ms from now, or an instant in ms
--          behind an @; empty where the grid stays, and of a tombstone. look_ms: when to look at it, from the start of the
--          grid; of next, from its pop. more: empty, or "tags" if there are some and the rank is 0, or "look_in_ms keep_ms token", each maybe "-":
--          when to look at it from now, of a tombstone its life; the life of one with a body hash, if that is longer; of a
--          leased write)
-- Returns: now_us, then for each item: "new start_ms" if it was stored where nothing was, else "status version seq
--          attempt ended firing_ms due_ms rf body_hash"; status stored, made (stored where nothing was), same, newer,
--          conflict (same state, another body), factor (another rf is there), exists (once, anew: a live timer or a body hash
--          is there), leased (or a mark lasts), lost (the token's lease is gone), none (nothing is there to go on from), older (an earlier version is
--          there, to go on from that); firing_ms is how long a callback of an earlier state may still start; after
--          not_after_ms: now_us, "late"
-- Cost:    O(items · log n + tags)
-- Twice:   safe: the second finds the same
local due, timers, leases, tags = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local not_after_ms = tonumber(ARGV[1])

if now_ms > not_after_ms then return { now_us, 'late' } end

-- Rounded up: a start before the write would make the timer early.
local starts_from = math.ceil(now_us / 1000)

-- Rule "order of states": negative if a is older than b. Versions are compared as
-- numbers: Lua compares strings by the server's locale, and some locales sort aa
-- after ff. Milliseconds and tag are compared apart: a number holds 53 bits.
local function compare(a, b)
  if a.version ~= b.version then
    local older = tonumber(string.sub(a.version, 1, 12), 16) - tonumber(string.sub(b.version, 1, 12), 16)
    if older ~= 0 then return older end
    return tonumber(string.sub(a.version, 13), 16) - tonumber(string.sub(b.version, 13), 16)
  end
  if a.ended or b.ended then return (a.ended and 1 or 0) - (b.ended and 1 or 0) end
  if a.seq ~= b.seq then return a.seq - b.seq end
  return a.attempt - b.attempt
end

local function start_of(text)
  local start_in = tonumber(text)
  return start_in and starts_from + start_in or tonumber(string.match(text, '^@(%-?%d+)$') or '')
end

local function read_item(i)
  local kind, key, head, tail = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local start, look, more = start_of(ARGV[i + 4]), tonumber(ARGV[i + 5]), ARGV[i + 6]
  local look_in, keep, token = string.match(more, '^(%S+) (%S+) (%S+)$')
  local new = parse(head .. ' ' .. int(start or 0) .. ' ' .. tail)
  new.kind, new.key, new.look, new.look_in, new.keep = kind, key, look, tonumber(look_in or ''), tonumber(keep or '') or 0
  new.token = token or '-'
  new.ended = kind == 'gone' or kind == 'bury' or kind == 'done' or kind == 'anew' and new.ended
  new.failure = string.gsub(new.failure, '^([^:]+):@:', '%1:' .. int(now_ms) .. ':')
  return new
end

local function answer(status, c)
  if not c then return status .. ' 0 0 0 0 0 0 0 -' end
  return status .. ' ' .. c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' .. (c.ended and '1' or '0') .. ' ' ..
    int(math.max(0, c.firing - now_ms)) .. ' ' .. int(c.start + c.seq * c.interval) .. ' ' .. c.rf .. ' ' ..
    c.body_hash
end

-- What a newer state keeps of an older one. A tombstone tells what was due last.
local function inherit(new, old)
  new.firing = old.firing
  if new.ended then new.away = union(new.away, old.away) end
  if new.kind == 'onto' then
    local due_at = new.seq * new.interval
    new.rank, new.look = old.rank, due_at + (new.look - due_at) * (2 * old.rank + 1)
  end
  if new.body_hash == '-' then new.body_hash = old.body_hash end
  if new.ended then new.start, new.interval, new.seq, new.rf = old.start, old.interval, old.seq, old.rf end
end

local function store(new)
  local score = new.look_in and now_ms + new.look_in or new.start + (new.look or 0)
  if new.ended then
    if new.body_hash ~= '-' then score = math.max(score, now_ms + new.keep) end
    score = math.max(score, new.firing)
    redis.call('ZREM', due, new.key)
  end
  redis.call('HSET', timers, new.key, format(new))
  redis.call('ZADD', due, int(score), new.key)
  redis.call('HDEL', leases, new.key)
end

-- Done on its predecessor: nothing is left of it, but a mark that has not passed, and a body hash that is to be kept.
local function remove(new)
  if new.firing > now_ms or new.body_hash ~= '-' and new.keep > 0 then
    new.look_in = 0
    count(new, 1)
    return store(new)
  end
  redis.call('ZREM', due, new.key)
  redis.call('HDEL', timers, new.key)
  redis.call('HDEL', leases, new.key)
end

-- When to look at the copy of a pop: a pop that is overdue as if it were due now. So the copies of an overdue pop stay a
-- skew apart, and none of them is looked at while a callback of a better copy is told.
local function look_at_pop(due_at, offset) return math.max(due_at, now_ms) + offset end

-- The outcome of a pop on another copy: it goes on, on its own grid.
local function advance(new, old)
  old.seq, old.attempt = new.seq, new.attempt
  old.failure = new.failure
  old.key, old.look_in, old.keep = new.key, new.look_in, 0
  if new.kind == 'next' then old.look = look_at_pop(old.start + new.seq * old.interval, new.look) - old.start end
  redis.call('ZREM', due, new.key)
  store(old)
end

-- What is there of the version that was asked about.
local function look(new, old)
  if new.version == old.version then return answer('same', old) end
  return answer(compare(new, old) < 0 and 'newer' or 'older', old)
end

-- The same end once more, by who knows which copies have not heard of it.
local function repeated(new, old, record)
  if new.away == '-' or new.kind ~= 'gone' then return answer('same', old) end
  local c = parse(record)
  c.away = union(c.away, new.away)
  redis.call('HSET', timers, new.key, format(c))
  return answer('same', c), true
end

local function drop(new, old)
  count(old, -1)
  redis.call('ZREM', due, new.key)
  redis.call('HDEL', timers, new.key)
  redis.call('HDEL', leases, new.key)
end

-- What the sweep does to a copy that nobody is at: it is in place elsewhere, or has another place now.
local function settle_down(new, old, record, lease)
  if lease ~= '' or old.firing > now_ms then return answer('leased', old) end
  new.ended = new.kind == 'leave' and new.seq == 0
  local order = compare(new, old)
  if order ~= 0 then return answer(order < 0 and 'newer' or 'older', old) end
  if new.kind == 'leave' then
    drop(new, old)
    return answer('stored', old), true
  end
  local c = parse(record)
  count(c, -1)
  c.rank = new.rank
  count(c, 1)
  if not old.ended and (old.attempt == 0 or new.look_in) then
    redis.call('ZREM', due, new.key)
    redis.call('ZADD', due, int(old.attempt == 0 and old.start + new.look or now_ms + new.look_in), new.key)
  end
  redis.call('HSET', timers, new.key, format(c))
  return answer('stored', old), true
end

-- Whether a create that is made once was made before.
local function made_before(new, old)
  if new.kind == 'once' then return not old.ended or old.body_hash ~= '-' end
  return new.kind == 'anew' and (not old.ended or old.body_hash == new.body_hash)
end

local onto_nothing = { put = true, once = true, anew = true, live = true, gone = true, done = true }
local specified = { put = true, once = true, anew = true, live = true, onto = true }

local function merge(new, record)
  local lease = record and redis.call('HGET', leases, new.key) or ''
  local old = record and parse(record, lease)
  if not old and (new.token ~= '-' or not onto_nothing[new.kind]) then return answer('none') end
  if new.token ~= '-' and lease ~= new.token and not fired(lease, new.token) then return answer('lost', old) end
  if old and made_before(new, old) then return answer('exists', old) end
  if new.kind == 'put' and old and not old.ended and old.rf ~= new.rf then return answer('factor', old) end
  if new.kind == 'look' then return look(new, old) end
  if new.kind == 'leave' or new.kind == 'rank' then return settle_down(new, old, record, lease or '') end
  local order = old and compare(new, old) or 1
  if order < 0 then return answer('newer', old) end
  if new.kind == 'onto' and old.ended then return answer('none', old) end
  if new.kind == 'drop' then
    if new.version ~= old.version then return answer('older', old) end
    drop(new, old)
    return answer('stored', old), true
  end
  if order == 0 then
    local same = new.ended or not specified[new.kind] or
      (new.body == old.body and new.interval == old.interval and new.rf == old.rf and new.tags == old.tags)
    if not same then return answer('conflict', old) end
    return repeated(new, old, record)
  end
  if new.kind == 'next' or new.kind == 'again' then
    if old.version ~= new.version then return answer('older', old) end
    advance(new, old)
    return answer('stored', old), true
  end
  local predecessor = new.kind == 'done' and old and not old.ended and old.version == new.version and old.seq == new.seq
  if old then
    count(old, -1)
    inherit(new, old)
  end
  if predecessor then
    remove(new)
  else
    count(new, 1)
    store(new)
  end
  return answer(old and 'stored' or 'made', new), true
end

-- What an outcome finds on another copy is most often the state before, without a lease or a mark: so much is seen without
-- taking the record apart, and such go together. Either answers nil if it isn't so.
local last_of_json = 125
local gone, moved, looks = {}, {}, {}

local function end_predecessor(i, record)
  local key, head, tail = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local state, attempt = string.match(head, '^(%x+ %d+ )(%d+) ')
  if string.sub(tail, -2) ~= ' -' or string.sub(record, 1, #state) ~= state then return nil end
  local rf, start, interval, firing, tagged, body_hash =
    string.match(record, '^%d+ %d+ (%d+) %S+ %S+ (%-?%d+) (%d+) (%S+) %S+ (%S+) (%S+) ', #state + 1)
  if firing ~= '-' or body_hash ~= '-' then return nil end
  if tagged ~= '-' then count({ rank = tonumber(string.match(record, '^%d+ (%d+)', #state + 1)), tags = tagged }, -1) end
  gone[#gone + 1] = key
  local seq = tonumber(string.match(state, ' (%d+) $'))
  return 'stored ' .. state .. attempt .. ' 1 0 ' .. int(start + seq * interval) .. ' ' .. rf .. ' -'
end

local function advance_record(i, record)
  local key, head, tail, look, more = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 5], ARGV[i + 6]
  local version, seq, attempt = string.match(head, '^(%x+ )(%d+) (%d+) ')
  if string.sub(record, 1, #version) ~= version then return nil end
  local old_seq, old_attempt, rank, rf, site, start, interval, firing, rest, body_hash =
    string.match(record, '^(%d+) (%d+) (%d+) (%d+) (%S+) %S+ (%-?%d+) (%d+) (%S+) %S+() %S+ (%S+) ', #version + 1)
  local ahead = tonumber(seq) - tonumber(old_seq)
  if firing ~= '-' or ahead < 0 or ahead == 0 and tonumber(attempt) <= tonumber(old_attempt) then return nil end
  local failure = string.gsub(string.match(tail, '^%S+ %S+ (%S+)'), '^([^:]+):@:', '%1:' .. int(now_ms) .. ':')
  local state, look_in = version .. seq .. ' ' .. attempt, tonumber(string.match(more, '^(%d+) ') or '')
  moved[#moved + 1], moved[#moved + 2] = key, state .. ' ' .. rank .. ' ' .. rf .. ' ' .. site .. ' - ' .. start .. ' ' ..
    interval .. ' - ' .. failure .. string.sub(record, rest)
  local due_at = start + seq * interval
  looks[#looks + 1], looks[#looks + 2] = int(look_in and now_ms + look_in or look_at_pop(due_at, tonumber(look))), key
  return 'stored ' .. state .. ' 0 0 ' .. int(due_at) .. ' ' .. rf .. ' ' .. body_hash
end

local quick = { done = end_predecessor, next = advance_record, again = advance_record }

-- Returns how many went so, and the items that are left; each is { where in ARGV, number, record }.
local function write_outcomes(items, reply)
  local outcomes, keys = {}, {}
  for n, item in ipairs(items) do
    local i, record = item[1], item[3]
    local kind, key, more = ARGV[i], ARGV[i + 1], ARGV[i + 6]
    if quick[kind] and record and string.byte(record, -1) == last_of_json and string.sub(more, -2) == ' -' then
      outcomes[#outcomes + 1], keys[#keys + 1] = n, key
    end
  end
  if #outcomes == 0 then return 0, items end
  local held, written, wrote = redis.call('HMGET', leases, unpack(keys)), {}, 0
  for k, n in ipairs(outcomes) do
    local i = items[n][1]
    local kind = ARGV[i]
    local said = not held[k] and quick[kind](i, items[n][3])
    if said then written[n], wrote, reply[items[n][2] + 1] = true, wrote + 1, said end
  end
  if #gone > 0 then
    redis.call('ZREM', due, unpack(gone))
    redis.call('HDEL', timers, unpack(gone))
  end
  if #moved > 0 then
    redis.call('ZREM', due, looks[2])
    redis.call('HSET', timers, unpack(moved))
    redis.call('ZADD', due, unpack(looks))
  end
  local left = {}
  for n, item in ipairs(items) do
    if not written[n] then left[#left + 1] = item end
  end
  return wrote, left
end

-- Records, which may be a megabyte each, are read few together.
local together = 50
local keys, page = {}, nil
for i = 2, #ARGV, 7 do
  local key = ARGV[i + 1]
  keys[#keys + 1] = key
end

-- What is new is written first and together: on a full Redis it is refused before anything was written.
local reply, stored, item = { now_us }, 0, 0
local scores, records, seen, rest = {}, {}, {}, {}
for i = 2, #ARGV, 7 do
  if item % together == 0 then
    page = redis.call('HMGET', timers, unpack(keys, item + 1, math.min(item + together, #keys)))
  end
  local key, record, start, more = ARGV[i + 1], page[item % together + 1], start_of(ARGV[i + 4]), ARGV[i + 6]
  item = item + 1
  if seen[key] then
    rest[#rest + 1] = { i, item }
  elseif record or more ~= '' and more ~= 'tags' or not start then
    rest[#rest + 1] = { i, item, record }
  else
    local head, tail, look = ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 5])
    local text, n = int(start), #scores
    scores[n + 1], scores[n + 2] = int(start + look), key
    records[n + 1], records[n + 2] = key, head .. ' ' .. text .. ' ' .. tail
    if more ~= '' then count({ rank = 0, tags = string.match(tail, '^%S+ %S+ %S+ (%S+)') }, 1) end
    reply[item + 1] = 'new ' .. text
    stored = stored + 1
  end
  seen[key] = true
end
if stored > 0 then
  redis.call('HSET', timers, unpack(records))
  redis.call('ZADD', due, unpack(scores))
end
local outcomes
outcomes, rest = write_outcomes(rest, reply)
stored = stored + outcomes
for _, r in ipairs(rest) do
  local new = read_item(r[1])
  local said, wrote = merge(new, r[3] or redis.call('HGET', timers, new.key))
  reply[r[2] + 1] = said
  if wrote then stored = stored + 1 end
end
if counted then
  for tag, by in pairs(counted) do
    if by ~= 0 and redis.call('HINCRBY', tags, tag, int(by)) <= 0 then redis.call('HDEL', tags, tag) end
  end
end
if stored > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
