-- Kind:    node
-- Does:    announces a node and what its clock shows on the shard, and forgets nodes that were silent for dead_after, and
--          announcements of times to come, which no node makes
-- KEYS:    nodes clocks
-- ARGV:    node dead_after_ms clock_ms max_ahead_ms
-- Returns: now_us, how long ago in ms the latest announcement before this one was (-1 if there is none), what the fastest
--          clock shows now, in ms, of those that are not more than max_ahead ahead of this node's, then the ids of the
--          nodes that live, this one among them
-- Cost:    O(nodes)
-- Twice:   safe: the second announces again
local nodes, clocks = KEYS[1], KEYS[2]
local node, dead_after_ms, clock_ms, max_ahead_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

redis.call('ZREMRANGEBYSCORE', nodes, '(' .. int(now_ms), '+inf')
local latest = redis.call('ZRANGE', nodes, -1, -1, 'WITHSCORES')
redis.call('ZREM', nodes, node)
redis.call('ZREMRANGEBYSCORE', nodes, '-inf', '(' .. int(now_ms - dead_after_ms))
redis.call('ZADD', nodes, int(now_ms), node)
redis.call('HSET', clocks, node, int(clock_ms) .. ' ' .. int(now_ms))

-- A clock goes on for as long as its node lives: it may have written until then. One that stands still is kept while it
-- is ahead of this one.
local fastest_ms = clock_ms
local said = redis.call('HGETALL', clocks)
for i = 1, #said, 2 do
  local showed, at = string.match(said[i + 1], '^(%d+) (%d+)$')
  local age_ms = now_ms - (tonumber(at) or 0)
  local shows_ms = (tonumber(showed) or 0) + math.max(0, math.min(age_ms, dead_after_ms))
  local broken = shows_ms > clock_ms + max_ahead_ms
  if not broken then fastest_ms = math.max(fastest_ms, shows_ms) end
  if math.abs(age_ms) > dead_after_ms and (broken or shows_ms <= clock_ms) then redis.call('HDEL', clocks, said[i]) end
end

local reply = { now_us, latest[2] and int(now_ms - tonumber(latest[2])) or '-1', int(fastest_ms) }
for _, id in ipairs(redis.call('ZRANGE', nodes, 0, -1)) do reply[#reply + 1] = id end
return reply
