-- Kind:    node
-- Does:    announces a node, the time of the node's clock, and the shards that the node lacks. Forgets nodes without an
--          announcement for dead_after. Drops announcements with a time in the future: no node announces a future time
-- KEYS:    nodes clocks
-- ARGV:    node dead_after_ms clock_ms max_ahead_ms lacks
--          (lacks: the shards that the node does not reach, with commas between the names; - for no shard)
-- Returns: now_us, the age in ms of the latest earlier announcement (-1 without an earlier announcement), the time in ms
--          of the fastest clock (clocks more than max_ahead ahead of clock_ms don't count), then for each live
--          node, the announced node included: id, lacks
-- Cost:    O(nodes)
-- Twice:   safe: the second call announces again
local nodes, clocks = KEYS[1], KEYS[2]
local node, dead_after_ms, clock_ms, max_ahead_ms, lacks = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

redis.call('ZREMRANGEBYSCORE', nodes, '(' .. int(now_ms), '+inf')
local latest = redis.call('ZRANGE', nodes, -1, -1, 'WITHSCORES')
redis.call('ZREM', nodes, node)
redis.call('ZREMRANGEBYSCORE', nodes, '-inf', '(' .. int(now_ms - dead_after_ms))
redis.call('ZADD', nodes, int(now_ms), node)
redis.call('HSET', clocks, node, int(clock_ms) .. ' ' .. int(now_ms) .. ' ' .. lacks)

-- A node may write for dead_after_ms after an announcement, so the clock goes on for as long. Afterwards the clock stands
-- still. The script keeps a clock that stands still while the clock is ahead of clock_ms.
local fastest_ms, lacked, max_lacks = clock_ms, {}, 4096
local said = redis.call('HGETALL', clocks)
for i = 1, #said, 2 do
  local showed, at, what = string.match(said[i + 1], '^(%d+) (%d+) (%S+)') -- a later chronos may write more
  lacked[said[i]] = what and #what <= max_lacks and what
  local age_ms = now_ms - (tonumber(at) or 0)
  local shows_ms = (tonumber(showed) or 0) + math.max(0, math.min(age_ms, dead_after_ms))
  local broken = shows_ms > clock_ms + max_ahead_ms
  if not broken then fastest_ms = math.max(fastest_ms, shows_ms) end
  if math.abs(age_ms) > dead_after_ms and (broken or shows_ms <= clock_ms) then redis.call('HDEL', clocks, said[i]) end
end

local reply = { now_us, latest[2] and int(now_ms - tonumber(latest[2])) or '-1', int(fastest_ms) }
for _, id in ipairs(redis.call('ZRANGE', nodes, 0, -1)) do
  reply[#reply + 1], reply[#reply + 2] = id, lacked[id] or '-'
end
return reply
