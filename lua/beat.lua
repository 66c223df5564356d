-- Kind:    node
-- Does:    announces a node (not a guest, a node of another site, of which only the clock is noted), the time of the node's clock, the shards that the node lacks, and what the node tells of
--          itself. Forgets nodes without an announcement for dead_after, and what a node has told forget_ms ago. Drops
--          announcements with a time in the future: no node announces a future time.
--          Forgets decisions about destinations that are older than keep_ms, or can't be read
-- KEYS:    nodes clocks pauses status
-- ARGV:    node dead_after_ms clock_ms max_ahead_ms lacks keep_ms forget_ms text format guest
--          (lacks: the shards that the node does not reach, with commas between the names; - for no shard. text: what the
--          node tells, a JSON object without the beginning, which is {"at_ms":, the time and a comma; empty for nothing.
--          format: the last format of records that the node reads. guest: 1 for a guest)
-- Returns: now_us, the age in ms of the latest earlier announcement (-1 without an earlier announcement), the time in ms
--          of the fastest clock (clocks more than max_ahead ahead of clock_ms don't count), the decisions about
--          destinations in one text, "destination stamp until_ms" with spaces between the decisions, then for each live node, the
--          announced node included: id, lacks, format
-- Cost:    O(nodes + decisions)
-- Twice:   safe: the second call announces again
local nodes, clocks, pauses, status = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local node, dead_after_ms, clock_ms, max_ahead_ms, lacks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local keep_ms, forget_ms, text, format, guest = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10] == '1'

redis.call('ZREMRANGEBYSCORE', nodes, '(' .. int(now_ms), '+inf')
local latest = redis.call('ZRANGE', nodes, -1, -1, 'WITHSCORES')
redis.call('ZREM', nodes, node)
redis.call('ZREMRANGEBYSCORE', nodes, '-inf', '(' .. int(now_ms - dead_after_ms))
if not guest then redis.call('ZADD', nodes, int(now_ms), node) end
redis.call('HSET', clocks, node, int(clock_ms) .. ' ' .. int(now_ms) .. ' ' .. lacks .. ' ' .. format)

-- Only the texts of nodes without an announcement are read: the texts are long.
if text ~= '' then redis.call('HSET', status, node, '{"at_ms":' .. int(now_ms) .. ',' .. text) end
for _, id in ipairs(redis.call('HKEYS', status)) do
  if not redis.call('ZSCORE', nodes, id) then
    local at_ms = tonumber(string.match(redis.call('HGET', status, id), '^{"at_ms":(%d+),') or 0)
    if math.abs(now_ms - at_ms) > forget_ms then redis.call('HDEL', status, id) end
  end
end

-- A node may write for dead_after_ms after an announcement, so the clock goes on for as long. Afterwards the clock stands
-- still. The script keeps a clock that stands still while the clock is ahead of clock_ms.
local fastest_ms, lacked, max_lacks, reads = clock_ms, {}, 4096, {}
local said = redis.call('HGETALL', clocks)
for i = 1, #said, 2 do
  -- A later chronos may write more. A node that names no format reads the first.
  local showed, at, what, last = string.match(said[i + 1], '^(%d+) (%d+) (%S+) ?(%d*)')
  lacked[said[i]] = what and #what <= max_lacks and what
  reads[said[i]] = last and #last == 1 and last
  local age_ms = now_ms - (tonumber(at) or 0)
  local shows_ms = (tonumber(showed) or 0) + math.max(0, math.min(age_ms, dead_after_ms))
  local broken = shows_ms > clock_ms + max_ahead_ms
  if not broken then fastest_ms = math.max(fastest_ms, shows_ms) end
  if math.abs(age_ms) > dead_after_ms and (broken or shows_ms <= clock_ms) then redis.call('HDEL', clocks, said[i]) end
end

-- A decision stays after the end of the pause: a shard that was away may come back with an earlier decision.
local decisions, kept = {}, redis.call('HGETALL', pauses)
for i = 1, #kept, 2 do
  local stamp, ends_ms = string.match(kept[i + 1], '^(%x+) (%d+)')
  local made_ms = stamp and #stamp == 16 and tonumber(string.sub(stamp, 1, 12), 16)
  if not made_ms or #ends_ms > 15 or string.find(kept[i], '%s') or made_ms > now_ms + max_ahead_ms or made_ms < now_ms - keep_ms then
    redis.call('HDEL', pauses, kept[i])
  else
    decisions[#decisions + 1] = kept[i] .. ' ' .. stamp .. ' ' .. ends_ms
  end
end

local reply = { now_us, latest[2] and int(now_ms - tonumber(latest[2])) or '-1', int(fastest_ms), table.concat(decisions, ' ') }
for _, id in ipairs(redis.call('ZRANGE', nodes, 0, -1)) do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, lacked[id] or '-', reads[id] or '1'
end
return reply
