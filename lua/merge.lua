-- Kind:    merge
-- Does:    changes copies as the items say, by the table of kinds below: a kind says which copy the write needs, and what the
--          write makes of the copy. A newer copy stays. A body hash and a firing mark that has not passed are kept. A new
--          tombstone keeps the away of the old tombstone. Every stored write ends the lease; adding names to away does not, and neither
--          does a new revision of a copy that has fired. An item with a token does nothing unless the lease has the token. An
--          item with a condition does nothing where the copy is newer than the condition allows. The script corrects the sums of
--          tags for live copies of rank 0, and the number of tombstones.
-- KEYS:    due timers leases tags
-- ARGV:    not_after_ms
-- ITEM:    kind key head rest start_ms look_ms keep_ms token
--          (head and rest: the record's head, and the text behind the head. start_ms: the start of the grid, from now, if the head
--          ends before the start; otherwise empty. look_ms: when to look at the copy, from the start of the grid; for next
--          from the pop; for a tombstone, for again, and for live and rank of a state with attempts, from now; empty to keep
--          the score; for hasten from now. keep_ms: the life of a tombstone with a body hash, if longer. token: the token of a leased
--          write; or "<version rev", the newest version that the copy may have, and the newest revision of that version; or "<version
--          rev seq attempt", if a copy of the version must also be at exactly this pop and attempt; or empty)
-- Returns: now_us, then for each item "status firing_ms hash head" (hash, head and word rev of the copy that is there now, or
--          was removed; firing_ms: how long a callback of an earlier state may still start), or "none" alone if the needed
--          copy is missing; status stored, made (stored where no copy was), same, newer, older (the copy is too old for the
--          write), conflict (the same state, another timer), factor (a live timer has another rf), exists (a create was made
--          before), leased (a lease or a firing mark lasts), lost (the lease does not have the token), none (a tombstone is
--          there); "later" alone for a record of a later format; after not_after_ms: now_us, "late"
-- Cost:    O(items · log n + tags)
-- Twice:   safe: the second call finds the same state
local due, timers, leases, tags

-- <record>
-- The kinds of writes. needs is the copy that a write needs: any (or no copy at all), copy, live, version (a copy of the
-- write's version), exact (a copy of exactly the write's state, without a lease and without a firing mark). makes is the
-- result: state (the write's state), tombstone, done (removes the predecessor, otherwise a tombstone), pop (the next
-- pop, or a retry), rank (the copy with another rank), or nothing.
local needs = {
  put = 'any', -- a client's create or replace: refused where a live timer has another rf
  once = 'any', -- a create, refused where a live timer or any body hash is
  anew = 'any', -- a create, refused where a live timer or the same body hash is
  live = 'any', -- a copy is adopted or restored
  amend = 'copy', -- a client's PATCH, with all of the timer that was read
  onto = 'live', -- on a shard that is no owner: the rank stays, look_ms is for rank 0
  gone = 'any', -- a delete; a repeated delete adds names to away
  bury = 'copy',
  done = 'any', -- done, next, again: an outcome, propagated to a copy without the lease
  next = 'version',
  again = 'version',
  drop = 'version', -- a write taken back
  hasten = 'exact', -- the pop, or its retry, is due now; a firing mark does not matter
  leave = 'exact', -- the sweep
  rank = 'exact',
  look = 'copy', -- changes nothing; the answer has the state
}
local makes = {
  put = 'state', once = 'state', anew = 'state', live = 'state', amend = 'state', onto = 'state', gone = 'tombstone', bury = 'tombstone',
  done = 'done', next = 'pop', again = 'pop', drop = 'nothing', leave = 'nothing', rank = 'rank', hasten = 'soon',
}

-- Rounded up: a start before the write would make the timer early.
local starts_from = math.ceil(now_us / 1000)

-- Reads a number of a head. Without tonumber, miniredis takes leading zeros for an octal number.
local function number(record, from, to) return tonumber(string.sub(record, from, to)) end

-- The time from the start of the grid to the next pop.
local function due_of(record) return number(record, 21, 31) * number(record, 43, 55) end

local function start_of(record) return number(record, 57, 71) end

-- Only records with words are taken apart: most records have no words, and heads are enough to decide.
local function ended(record) return string.byte(record, 2) == 84 end

local function plain(record) return string.byte(record, head_width + 2) == 123 or #record == head_width end

-- The words of the records that were read together, by record: several decisions are about each record.
local words_of

local function word(record, name)
  if plain(record) then return '-' end
  local words = words_of[record]
  if not words then
    words = {}
    for word_name, value in string.gmatch(string.sub(record, head_width + 1, (body_of(record) or 0) - 1), ' (%l+)=(%S+)') do
      words[word_name] = words[word_name] or value
    end
    words_of[record] = words
  end
  return words[name] or '-'
end

local function mark_of(record) return tonumber(word(record, 'mark')) or 0 end

local function count_record(record, sign)
  if ended(record) or not plain(record) then
    count({ ended = ended(record), rank = number(record, 37, 38), tags = word(record, 'tags') }, sign)
  end
end

-- Rule "order of states": negative if a is older than b.
local function compare(a, b)
  if string.sub(a, 4, 19) ~= string.sub(b, 4, 19) then return compare_versions(string.sub(a, 4, 19), string.sub(b, 4, 19)) end
  if ended(a) or ended(b) then return (ended(a) and 1 or 0) - (ended(b) and 1 or 0) end
  if string.sub(a, 21, 35) == string.sub(b, 21, 35) then return 0 end
  local pops = number(a, 21, 31) - number(b, 21, 31)
  return pops ~= 0 and pops or number(a, 33, 35) - number(b, 33, 35)
end

local function answer(status, record)
  local head = string.sub(record, 1, head_width)
  if plain(record) then return status .. ' 0 - ' .. head end
  local rev = word(record, 'rev')
  if rev ~= '-' then head = head .. ' rev=' .. rev end
  return status .. ' ' .. int(math.max(0, mark_of(record) - now_ms)) .. ' ' .. word(record, 'hash') .. ' ' .. head
end

-- Reports whether the copy shows that a create was made before.
local function known(kind, new, old)
  if kind == 'once' then return not ended(old) or word(old, 'hash') ~= '-' end
  return kind == 'anew' and (not ended(old) or word(old, 'hash') == word(new, 'hash'))
end

local function conditional(token) return string.byte(token) == 60 end

-- Reports whether a condition names the pop and the attempt behind the version and the revision.
local function exact(token) return conditional(token) and #token > 34 end

local function same_version(new, old) return string.sub(new, 4, 19) == string.sub(old, 4, 19) end

-- Reports whether two records of the same state have the same timer.
local function same_timer(new, old)
  return string.sub(new, 40, 55) == string.sub(old, 40, 55) and word(new, 'tags') == word(old, 'tags') and
    string.sub(new, body_of(new) or 0) == string.sub(old, body_of(old) or 0)
end

-- Rule "a patch is a revision": positive if the live record a has a newer revision than the live record b of the same
-- version, negative if an older revision.
local function compare_revisions(a, b)
  if plain(a) and plain(b) or ended(a) or ended(b) or not same_version(a, b) then return 0 end
  local of_a, of_b = word(a, 'rev'), word(b, 'rev')
  if of_a == of_b then return 0 end
  if of_a == '-' then return -1 end
  return of_b == '-' and 1 or compare_versions(of_a, of_b)
end

-- Rule "conditions": reports whether the copy is newer than a condition allows. The version and the revision of the write
-- itself are there if the write was sent before.
local function exceeds(condition, kind, new, old)
  local rev, there = word(new, 'rev'), word(old, 'rev')
  if kind ~= 'hasten' and same_version(new, old) and (rev == '-' or rev == there) then return false end
  local order = compare_versions(string.sub(old, 4, 19), string.sub(condition, 2, 17))
  if order ~= 0 then return order > 0 end
  if there ~= '-' and compare_versions(there, string.sub(condition, 19, 34)) > 0 then return true end
  if not exact(condition) then return false end
  local seq, attempt = string.match(condition, ' (%d+) (%d+)$')
  return ended(old) or number(old, 21, 31) ~= tonumber(seq) or number(old, 33, 35) ~= tonumber(attempt)
end

-- Reports whether the write is a PATCH of the version that is there: the PATCH is about the revision alone, whatever the state.
local function patches(kind, new, old)
  return (kind == 'amend' or kind == 'onto' and word(new, 'rev') ~= '-') and same_version(new, old) and not ended(old)
end

-- The status of a refused write; nil if the script carries out the write.
local function refused(kind, new, old, lease, token)
  local need, make = needs[kind], makes[kind]
  if conditional(token) then
    if exceeds(token, kind, new, old) then return 'newer' end
    local read = kind == 'amend' and string.sub(new, 4, 19) or exact(token) and string.sub(token, 2, 17)
    if read and compare_versions(string.sub(old, 4, 19), read) < 0 then return 'older' end
  elseif token ~= '' and lease ~= token and not fired(lease, token) then return 'lost' end
  if known(kind, new, old) then return 'exists' end
  if kind == 'put' and not ended(old) and string.sub(old, 40, 41) ~= string.sub(new, 40, 41) then return 'factor' end
  if not make and same_version(new, old) then return 'same' end
  local order = compare(new, old)
  if need == 'exact' and (lease ~= '' or kind ~= 'hasten' and mark_of(old) > now_ms) then return 'leased' end
  local revisions = make == 'state' and compare_revisions(new, old) or 0
  if patches(kind, new, old) then order = 0 end
  if order <= 0 and revisions > 0 then return nil end
  if order < 0 or order == 0 and revisions < 0 then return 'newer' end
  if not make or need == 'exact' and order > 0 then return 'older' end
  if need == 'live' and ended(old) then return 'none' end
  if make == 'nothing' then return not same_version(new, old) and 'older' or nil end
  if need == 'exact' then return nil end
  if order == 0 then return (ended(new) or make ~= 'state' or kind == 'amend' or same_timer(new, old)) and 'same' or 'conflict' end
  if need == 'version' and not same_version(new, old) then return 'older' end
end

-- Changes are collected, and written by few calls for all items. States come first: a full Redis refuses states before
-- the script has written anything. For moves the script first removes an entry of due (lua/README.md, Rules of all scripts).
local states, moves, gone, freed, revised_leases

local function forget() states, moves, gone, freed, revised_leases = { {}, {} }, { {}, {} }, {}, {}, {} end

local function write(group, key, record, score)
  local records, scores = group[1], group[2]
  records[#records + 1], records[#records + 2] = key, record
  if score then scores[#scores + 1], scores[#scores + 2] = int(score), key end
end

local function flush()
  if #states[1] > 0 then
    redis.call('HSET', timers, unpack(states[1]))
    if #states[2] > 0 then redis.call('ZADD', due, unpack(states[2])) end
    if #revised_leases > 0 then redis.call('HSET', leases, unpack(revised_leases)) end
  end
  if #gone > 0 then
    redis.call('ZREM', due, unpack(gone))
    redis.call('HDEL', timers, unpack(gone))
  end
  if #moves[1] > 0 then
    if #moves[2] > 0 then redis.call('ZREM', due, moves[2][2]) end
    redis.call('HSET', timers, unpack(moves[1]))
    if #moves[2] > 0 then redis.call('ZADD', due, unpack(moves[2])) end
  end
  if #freed > 0 then redis.call('HDEL', leases, unpack(freed)) end
  forget()
end

-- A function of make takes the kind, the key, the record of the write, the old record or nil, when to look at the copy, how
-- long a body hash is kept, and the lease or nil. The function returns the record that is there afterwards, or was removed,
-- and whether the lease stays.
local make = {}

-- The state of one record with the revision of another: all that a PATCH may change.
local function with_revision(state, revision)
  local c, of = read(state), read(revision)
  c.format, c.rev, c.tags, c.body = of.format, of.rev, of.tags, of.body
  return format(c)
end

-- A revision leaves a callback that has begun alone; the zero in the lease has the end of the callback leave a tombstone. A
-- copy that is leased and has not fired comes due at once, so that no callback is made from what the claim has read.
local function revise(kind, key, new, old, look, lease)
  local is, score = with_revision(old, new), nil
  local fenced = lease and fence_noted(lease)
  if fenced and not revised(lease, string.match(lease, '^%S+')) then
    local n = #revised_leases
    revised_leases[n + 1], revised_leases[n + 2] = key, (string.gsub(lease, ' ', ' 0', 1))
  elseif lease and not fenced then
    score = now_ms
    if string.sub(old, 33, 35) == '000' then
      local offset = (kind == 'onto' or string.sub(new, 33, 35) == '000') and look - due_of(new) or 0
      local turn = start_of(old) + due_of(old) + (kind == 'onto' and offset * (2 * number(old, 37, 38) + 1) or offset)
      -- A lease lasts longer than until the turn of its pop, unless the pop came due before its turn: by hasten.
      local lease_end = tonumber(redis.call('ZSCORE', due, key) or '')
      if not lease_end or lease_end > turn then score = turn end
    end
  end
  write(states, key, is, score)
  return is, fenced
end

-- A newer state keeps the firing mark, the body hash and a newer revision of the older state.
function make.state(kind, key, new, old, look, keep, lease)
  if ended(new) then return make.tombstone(kind, key, new, old, look, keep) end
  local revisions = old and compare_revisions(new, old) or 0
  if revisions > 0 and (compare(new, old) <= 0 or patches(kind, new, old)) then return revise(kind, key, new, old, look, lease) end
  if revisions < 0 then new = with_revision(new, old) end
  local start = start_of(new)
  local score = start + look
  if kind == 'onto' then
    local due_at = due_of(new)
    new = string.sub(new, 1, 36) .. string.sub(old, 37, 38) .. string.sub(new, 39)
    score = start + due_at + (look - due_at) * (2 * number(old, 37, 38) + 1)
  elseif (kind == 'live' or kind == 'amend') and string.sub(new, 33, 35) ~= '000' then
    score = now_ms + look
  end
  if old and not plain(old) then
    local c = read(new)
    c.firing = mark_of(old)
    if c.hash == '-' then c.hash = word(old, 'hash') end
    new = format(c)
  end
  write(states, key, new, score)
  return new
end

-- A tombstone has the number of the last pop, and keeps the names of the copies that missed the end.
local function tombstone_of(new, old)
  if not old then return new end
  new = string.sub(new, 1, 20) .. string.sub(old, 21, 31) .. string.sub(new, 32, 39) .. string.sub(old, 40, 71) .. string.sub(new, 72)
  local adds_hash = word(new, 'hash') == '-' and word(old, 'hash') ~= '-'
  if mark_of(old) <= now_ms and word(old, 'away') == '-' and not adds_hash then return new end
  local c = read(new)
  c.firing, c.away = mark_of(old), union(c.away, word(old, 'away'))
  if c.hash == '-' then c.hash = word(old, 'hash') end
  return format(c)
end

function make.tombstone(_, key, new, old, look, keep)
  new = tombstone_of(new, old)
  local life = word(new, 'hash') ~= '-' and math.max(look, keep) or look
  write(moves, key, new, math.max(now_ms + life, mark_of(new)))
  return new
end

function make.nothing(_, key, _, old)
  gone[#gone + 1] = key
  return old
end

-- Removes the predecessor. A firing mark that has not passed, or a body hash to keep, leaves a tombstone.
function make.done(kind, key, new, old, look, keep)
  local follows = old and not ended(old) and string.sub(old, 4, 31) == string.sub(new, 4, 31) and word(old, 'rev') == word(new, 'rev')
  new = string.gsub(new, ' rev=%x+', '', 1)
  if not follows then return make.tombstone(kind, key, new, old, look, keep) end
  new = tombstone_of(new, old)
  if mark_of(new) > now_ms or keep > 0 and word(new, 'hash') ~= '-' then return make.tombstone(kind, key, new, nil, 0, keep) end
  return make.nothing(kind, key, nil, new)
end

-- The instant to look at the copy of a pop; an overdue pop counts as due now. The copies of an overdue pop therefore stay a
-- skew apart. No copy is looked at while nodes propagate the outcome of a better copy.
local function look_at_pop(due_at, offset) return math.max(due_at, now_ms) + offset end

-- Merges an outcome into a copy without the lease: the copy goes on, on the grid of the copy.
function make.pop(kind, key, new, old, look)
  local failure, went_on = word(new, 'failure'), string.sub(old, 1, 20) .. string.sub(new, 21, 35) .. string.sub(old, 36)
  local due_at = start_of(old) + due_of(went_on)
  if not plain(new) or not plain(old) then
    local c = read(went_on)
    c.failure, c.left = failure, tonumber(word(new, 'left')) or 0
    went_on = format(c)
  end
  write(moves, key, went_on, kind == 'again' and now_ms + look or look_at_pop(due_at, look))
  return went_on
end

-- The record stays. A copy that comes due sooner stays as it is.
function make.soon(_, key, _, old, look)
  local score = tonumber(redis.call('ZSCORE', due, key) or '')
  if not score or score > now_ms + look then write(moves, key, old, now_ms + look) end
  return old
end

function make.rank(_, key, new, old, look)
  local score = nil
  if not ended(old) and string.sub(old, 33, 35) == '000' then
    score = start_of(old) + look
  elseif not ended(old) and look then
    score = now_ms + look
  end
  local ranked = string.sub(old, 1, 36) .. string.sub(new, 37, 38) .. string.sub(old, 39)
  write(moves, key, ranked, score)
  return ranked
end

-- The record that is there, with the notes of a passed fence; nil for an unreadable record.
local function there(record, lease)
  if not record or not readable(record) then return nil end
  return lease and fence_noted(lease) and format(parse(record, lease)) or record
end

-- <each>
due, timers, leases, tags = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local not_after_ms = tonumber(ARGV[1])
if now_ms > not_after_ms then return { now_us, 'late' } end

forget()
counted = nil

local function merge(i, record, lease)
  local kind, key, head, rest = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local start_ms, look_ms, keep_ms, token = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), ARGV[i + 7]
  if record and later(record) then return 'later' end
  local old = there(record, lease)
  if start_ms then head = head .. string.format('%+015d', starts_from + start_ms) end
  if not old and (token ~= '' and not conditional(token) or exact(token) or needs[kind] ~= 'any') then return 'none' end
  if string.byte(rest, 2) ~= 123 then rest = string.gsub(rest, '^( failure=[^: ]+):@:', '%1:' .. int(now_ms) .. ':') end
  local new = head .. rest
  local refusal = old and refused(kind, new, old, lease or '', token)
  if refusal == 'same' and kind == 'gone' and word(new, 'away') ~= '-' then -- the repeated delete knows which copies missed the end
    local c = read(old)
    c.away = union(c.away, word(new, 'away'))
    write(moves, key, format(c))
  end
  if refusal then return answer(refusal, old) end
  if old then count_record(old, -1) end
  local removed = #gone
  local is, lease_stays = make[makes[kind]](kind, key, new, old, look_ms, keep_ms or 0, lease)
  if #gone == removed then count_record(is, 1) end
  if lease and not lease_stays then freed[#freed + 1] = key end
  return answer(old and 'stored' or 'made', is)
end

-- Ends a copy that waits for exactly the pop that is over, without a lease and without words, as most copies do when the
-- outcome comes. Returns nil for all other items.
local function over(i, record, lease)
  local kind, key, head, rest, token = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 7]
  if lease or not record or kind ~= 'done' and kind ~= 'gone' or rest ~= '' or token ~= '' or
    string.byte(record, head_width + 2) ~= 123 or string.sub(record, 2, 31) ~= 'L' .. string.sub(head, 3, 31) or not readable(record) then
    return nil
  end
  local tombstone, look_ms = string.sub(head, 1, 39) .. string.sub(record, 40, head_width), tonumber(ARGV[i + 5])
  if kind == 'done' then
    gone[#gone + 1] = key
  else
    write(moves, key, tombstone, now_ms + look_ms)
    count({ ended = true }, 1)
  end
  return 'stored 0 - ' .. tombstone
end

local keys = {}
for i = 2, #ARGV, 8 do
  local key = ARGV[i + 1]
  keys[#keys + 1] = key
end

-- Few records are read together, since a record may be a megabyte.
local together, item = 50, 0
local reply, seen, records, held = { now_us }, {}, nil, nil
for i = 2, #ARGV, 8 do
  local key, nth = ARGV[i + 1], item % together + 1
  if nth == 1 then
    local last = math.min(item + together, #keys)
    records, held, words_of = redis.call('HMGET', timers, unpack(keys, item + 1, last)), {}, {}
    for _, record in ipairs(records) do
      if record then
        held = redis.call('HMGET', leases, unpack(keys, item + 1, last))
        break
      end
    end
  end
  item = item + 1
  local record, lease = records[nth], held[nth]
  if seen[key] then
    flush()
    record, lease = redis.call('HGET', timers, key), redis.call('HGET', leases, key)
  end
  seen[key] = true
  reply[item + 1] = over(i, record, lease) or merge(i, record, lease)
end
flush()
if counted then
  for tag, by in pairs(counted) do
    if by ~= 0 and redis.call('HINCRBY', tags, tag, int(by)) <= 0 then redis.call('HDEL', tags, tag) end
  end
end
return reply
