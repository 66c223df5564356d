-- Kind:    read
-- Does:    says which of the given states differ here or are firing
-- KEYS:    due timers leases
-- ARGV:
-- ITEM:    key version seq attempt rank_from
--          (rank_from: "ended" for a tombstone, which seq and attempt say nothing about; of a live state the rank from
--          which on a copy differs though its state is the same, "-" if none does)
-- Returns: now_us, then for each item that differs or is firing: "index version seq attempt ended firing_ms look_in_ms"
--          (index of the item from 0; firing_ms: how long the mark lasts, 0 if none; look_in_ms: until the lease ends or
--          the copy is due, 0 if that is over), or "index missing"
-- Cost:    O(items), and O(log n) for each that differs
-- Twice:   safe: reads
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]

-- Most are live, not leased, and without a mark: so much can be seen without taking the record apart.
local last_of_json = 125
local function same(record, lease, version, seq, attempt, rank_from)
  local state = version .. ' ' .. seq .. ' ' .. attempt .. ' '
  if lease or string.byte(record, -1) ~= last_of_json or string.sub(record, 1, #state) ~= state then return false end
  local rank, firing = string.match(record, '^(%d+) %d+ %S+ %S+ %-?%d+ %d+ (%S+) ', #state + 1)
  return firing == '-' and (rank_from == '-' or tonumber(rank) < tonumber(rank_from))
end

-- Records, which may be a megabyte each, are read few together.
local together = 50
local keys, records, held = {}, nil, nil
for i = 1, #ARGV, 5 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end

local reply, index = { now_us }, 0
for i = 1, #ARGV, 5 do
  local nth = index % together + 1
  if nth == 1 then
    records = redis.call('HMGET', timers, unpack(keys, index + 1, math.min(index + together, #keys)))
    held = redis.call('HMGET', leases, unpack(keys, index + 1, math.min(index + together, #keys)))
  end
  local key, version, seq, attempt, rank_from = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local ended = rank_from == 'ended'
  local record, lease = records[nth], held[nth]
  if ended or not record or not same(record, lease, version, seq, attempt, rank_from) then
    local c = record and parse(record, lease)
    if not c then
      reply[#reply + 1] = int(index) .. ' missing'
    elseif c.version ~= version or c.ended ~= ended or not ended and (c.seq ~= tonumber(seq) or c.attempt ~= tonumber(attempt))
      or c.firing > now_ms or not ended and rank_from ~= '-' and c.rank >= tonumber(rank_from) then
      local score = tonumber(redis.call('ZSCORE', due, key) or '') or now_ms
      reply[#reply + 1] = int(index) .. ' ' .. c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' ..
        (c.ended and '1' or '0') .. ' ' .. int(math.max(0, c.firing - now_ms)) .. ' ' .. int(math.max(0, score - now_ms))
    end
  end
  index = index + 1
end
return reply
