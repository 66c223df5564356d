-- Kind:    pauses
-- Does:    keeps the latest decision about each destination: a pause until until_ms, or the end of a pause if until_ms is 0. Of two
--          decisions the decision with the higher stamp counts. A decision stays for keep_ms after its stamp, even when the pause
--          is over: another shard may come back with an earlier decision. Refuses decisions older than keep_ms, decisions with
--          a stamp more than max_ahead_ms ahead, pauses beyond most_pauses in force, and new destinations beyond most
-- KEYS:    pauses
-- ARGV:    keep_ms max_ahead_ms most_pauses most
-- ITEM:    destination stamp until_ms
--          (stamp: 16 hexadecimal digits, 48 bits of milliseconds and 16 bits of a tag)
-- Returns: now_us, then for each item the decision that counts now, "stamp until_ms", or - if the decision was refused
-- Cost:    O(decisions + items)
-- Twice:   safe: the second call finds the same decisions
local pauses = KEYS[1]
local keep_ms, max_ahead_ms, most_pauses, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function read(text)
  local stamp, ends_ms = string.match(text or '', '^(%x+) (%d+)')
  if not stamp or #stamp ~= 16 or #ends_ms > 15 then return nil end
  local made_ms = tonumber(string.sub(stamp, 1, 12), 16)
  if made_ms > now_ms + max_ahead_ms or made_ms < now_ms - keep_ms then return nil end
  return made_ms, tonumber(string.sub(stamp, 13), 16), tonumber(ends_ms)
end

redis.call('HDEL', pauses, '') -- a Redis at its maxmemory takes what follows a removal
local kept, known, all, in_force = redis.call('HGETALL', pauses), {}, 0, 0
for i = 1, #kept, 2 do
  local made_ms, _, ends_ms = read(kept[i + 1])
  if made_ms then
    known[kept[i]], all = kept[i + 1], all + 1
    if ends_ms > now_ms then in_force = in_force + 1 end
  else
    redis.call('HDEL', pauses, kept[i])
  end
end

local reply = { now_us }
for i = 5, #ARGV, 3 do
  local destination, stamp, until_ms = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local text = stamp .. ' ' .. until_ms
  local made_ms, tag, ends_ms = read(text)
  local old_ms, old_tag, old_ends_ms = read(known[destination])
  local newer = made_ms and (not old_ms or made_ms > old_ms or made_ms == old_ms and tag > old_tag)
  local pausing = newer and ends_ms > now_ms and not (old_ms and old_ends_ms > now_ms)
  if newer and not (pausing and in_force >= most_pauses) and (old_ms or all < most) then
    redis.call('HSET', pauses, destination, text)
    known[destination] = text
    if not old_ms then all = all + 1 end
    if pausing then in_force = in_force + 1 end
    if old_ms and old_ends_ms > now_ms and ends_ms <= now_ms then in_force = in_force - 1 end
  end
  reply[#reply + 1] = (not newer or known[destination] == text) and known[destination] or '-'
end
return reply
