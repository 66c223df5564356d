-- Kind:    merge
-- Does:    "become this state if it is newer than yours": put (a client's create or replace: refused if a live timer has
--          another rf), once (a create that does nothing where a live timer or a body hash is), live (adopt,
--          restore, sweep), gone (a client's delete), done (an outcome told to another copy: removes exactly its
--          predecessor, leaves a tombstone on what is older and on nothing). Ends a lease, keeps a body hash and a firing
--          mark that has not passed. An item with a token is a leased write: it does nothing unless the lease is that
--          token's.
-- KEYS:    due timers leases
-- ARGV:    not_after_ms
-- ITEM:    kind key version seq attempt rank rf site away due_in_ms due_at_ms look_in_ms skew_ms interval_ms tags body_hash body life_ms keep_ms token
--          (due_in_ms: the pop from now, due_at_ms: the instant a client gave; one of them is empty. look_in_ms: when to
--          look at it if not when due, or empty. body_hash: of a request with an idempotency key, else -. life_ms: of the
--          tombstone, keep_ms: of one with a body hash, if that is longer. token: empty for a merge.)
-- Returns: now_us, then for each item: "status version seq attempt ended firing_ms due_ms rf body_hash away"; status
--          stored, same, newer, conflict (same state, another body), factor (another rf is there), exists (once: a live
--          timer or a body hash is there), lost (the token's lease is gone), none (a token and no timer);
--          firing_ms is how long a callback of an earlier state may still start; after not_after_ms: now_us, "late"
-- Cost:    O(items · log n)
-- Twice:   safe: the second finds the same
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local not_after_ms = tonumber(ARGV[1])

if now_ms > not_after_ms then return { now_us, 'late' } end

-- Rule P1: negative if a is older than b. Versions are compared as numbers: Lua
-- compares strings as the server's locale sorts them, in some of which aa comes
-- after ff. Milliseconds and tag by themselves: a number holds 53 bits.
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

local function read_item(i)
  local kind = ARGV[i]
  return {
    kind = kind, key = ARGV[i + 1], version = ARGV[i + 2], seq = tonumber(ARGV[i + 3]), attempt = tonumber(ARGV[i + 4]),
    rank = tonumber(ARGV[i + 5]), rf = ARGV[i + 6], site = ARGV[i + 7], away = ARGV[i + 8],
    due_in = tonumber(ARGV[i + 9]), due_at = tonumber(ARGV[i + 10]), look_in = tonumber(ARGV[i + 11]),
    skew = tonumber(ARGV[i + 12]), interval = tonumber(ARGV[i + 13]), tags = ARGV[i + 14], body_hash = ARGV[i + 15],
    body = ARGV[i + 16], life = tonumber(ARGV[i + 17]), keep = tonumber(ARGV[i + 18]), token = ARGV[i + 19],
    ended = kind == 'gone' or kind == 'done', start = 0, firing = 0, failure = '-',
  }
end

local function answer(status, c)
  if not c then return status .. ' 0 0 0 0 0 0 0 - -' end
  return status .. ' ' .. c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' .. (c.ended and '1' or '0') .. ' ' ..
    int(math.max(0, c.firing - now_ms)) .. ' ' .. int(c.start + c.seq * c.interval) .. ' ' .. c.rf .. ' ' ..
    c.body_hash .. ' ' .. c.away
end

-- What a newer state keeps of an older one. A tombstone tells what was due last.
local function inherit(new, old)
  new.firing = old.firing
  if new.away == '-' then new.away = old.away end
  if new.body_hash == '-' then new.body_hash = old.body_hash end
  if new.ended then new.start, new.interval, new.seq, new.rf = old.start, old.interval, old.seq, old.rf end
end

local function store(new)
  local score
  if new.ended then
    if new.body_hash ~= '-' then new.life = math.max(new.life, new.keep) end
    score = math.max(now_ms + new.life, new.firing)
    redis.call('ZREM', due, new.key)
  else
    -- Rounded up: a start before the write would make the timer early.
    local first = new.due_at or math.ceil(now_us / 1000) + new.due_in
    new.start = first - new.seq * new.interval
    score = new.look_in and now_ms + new.look_in or first + new.rank * new.skew
  end
  redis.call('HSET', timers, new.key, format(new))
  redis.call('ZADD', due, int(score), new.key)
  redis.call('HDEL', leases, new.key)
end

-- Done on its predecessor: nothing is left of it, but a mark that has not passed, and a body hash that is to be kept.
local function remove(new)
  if new.firing > now_ms or new.body_hash ~= '-' and new.keep > 0 then
    new.life = 0
    return store(new)
  end
  redis.call('ZREM', due, new.key)
  redis.call('HDEL', timers, new.key)
  redis.call('HDEL', leases, new.key)
end

local function merge(new)
  local record = redis.call('HGET', timers, new.key)
  local old = record and parse(record)
  if new.token ~= '' then
    if not old then return answer('none') end
    local lease = redis.call('HGET', leases, new.key) or ''
    if lease ~= new.token and not fired(lease, new.token) then return answer('lost', old) end
  end
  if new.kind == 'once' and old and (not old.ended or old.body_hash ~= '-') then return answer('exists', old) end
  if new.kind == 'put' and old and not old.ended and old.rf ~= new.rf then return answer('factor', old) end
  local order = old and compare(new, old) or 1
  if order < 0 then return answer('newer', old) end
  if order == 0 then
    local same = new.ended or
      (new.body == old.body and new.interval == old.interval and new.rf == old.rf and new.tags == old.tags)
    return answer(same and 'same' or 'conflict', old)
  end
  local predecessor = new.kind == 'done' and old and not old.ended and old.version == new.version and old.seq == new.seq
  if old then inherit(new, old) end
  if predecessor then remove(new) else store(new) end
  return answer('stored', new), true
end

local reply, stored = { now_us }, 0
for i = 2, #ARGV, 20 do
  local said, wrote = merge(read_item(i))
  reply[#reply + 1] = said
  if wrote then stored = stored + 1 end
end
if stored > 0 then redis.call('HINCRBY', timers, '#', 1) end
return reply
