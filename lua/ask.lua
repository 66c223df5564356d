-- Kind:    read
-- Does:    compares copies with the given states, and reports every copy that differs or is firing
-- KEYS:    due timers leases
-- ARGV:
-- ITEM:    key state rank_from
--          (state: the begin of a record, up to the attempt, and the revision behind a space; tombstones of the same version do
--          not differ. rank_from: a live copy of the same state also differs if the rank is rank_from or higher; "-" for no
--          such bound)
-- Returns: now_us, then for each item that differs or is firing: "index firing_ms look_in_ms head" (index: the item's number,
--          from 0; firing_ms: how long the firing mark lasts, 0 without a mark; look_in_ms: time until the lease ends or
--          the copy is due, at least 0; head: the record's head, and the word rev), "index missing" without a readable copy, or
--          "index later version" for a record of a later format
-- Cost:    O(items), and O(log n) for each reported copy
-- Twice:   safe: reads
local due, timers, leases

-- <record>

-- Most copies are live, without a lease and without words. Comparing bytes is then enough.
local function same(record, lease, state, rank_from)
  if lease or string.sub(record, 2, state_width) ~= string.sub(state, 2) or string.byte(record, head_width + 2) ~= 123 then return false end
  return rank_from == '-' or tonumber(string.sub(record, 37, 38)) < tonumber(rank_from)
end

local function differs(c, state, rank_from)
  if c.firing > now_ms or c.version ~= string.sub(state, 4, 19) or c.ended ~= (string.byte(state, 2) == 84) then return true end
  if c.ended then return false end
  local rev = #state > state_width and string.sub(state, state_width + 2) or '-'
  return string.sub(head_of(c), 2, state_width) ~= string.sub(state, 2, state_width) or c.rev ~= rev or rank_from ~= '-' and c.rank >= tonumber(rank_from)
end

-- Few records are read together, since a record may be a megabyte.
local together = 50

-- <each>
due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local keys, records, held = {}, nil, nil
for i = 1, #ARGV, 3 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end

local reply, index = { now_us }, 0
for i = 1, #ARGV, 3 do
  local nth = index % together + 1
  if nth == 1 then
    records = redis.call('HMGET', timers, unpack(keys, index + 1, math.min(index + together, #keys)))
    held = redis.call('HMGET', leases, unpack(keys, index + 1, math.min(index + together, #keys)))
  end
  local key, state, rank_from = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local record, lease = records[nth], held[nth]
  if not record or not same(record, lease, state, rank_from) then
    local c = record and parse(record, lease)
    if record and later(record) then
      reply[#reply + 1] = int(index) .. ' later ' .. string.sub(record, 4, 19)
    elseif not c then
      reply[#reply + 1] = int(index) .. ' missing'
    elseif differs(c, state, rank_from) then
      local score = tonumber(redis.call('ZSCORE', due, key) or '') or now_ms
      reply[#reply + 1] = int(index) .. ' ' .. int(math.max(0, c.firing - now_ms)) .. ' ' .. int(math.max(0, score - now_ms)) .. ' ' .. head_of(c) ..
        (c.rev ~= '-' and ' rev=' .. c.rev or '')
    end
  end
  index = index + 1
end
return reply
