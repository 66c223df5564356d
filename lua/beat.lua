-- Kind:    node
-- Does:    announces a node and what its clock shows on the shard, forgets nodes that were silent for dead_after, and clocks
--          of those that were for clock_life
-- KEYS:    nodes clocks
-- ARGV:    node dead_after_ms clock_ms clock_life_ms max_ahead_ms
-- Returns: now_us, how long ago in ms the latest announcement before this one was (-1 if there is none), what the fastest
--          clock shows now, in ms, of those that are not more than max_ahead ahead of this node's, then the ids of the
--          nodes that live, this one among them
-- Cost:    O(nodes)
-- Twice:   safe: the second announces again
local nodes, clocks = KEYS[1], KEYS[2]
local node, dead_after_ms, clock_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local clock_life_ms, max_ahead_ms = tonumber(ARGV[4]), tonumber(ARGV[5])

local latest = redis.call('ZRANGE', nodes, -1, -1, 'WITHSCORES')
redis.call('ZREM', nodes, node)
redis.call('ZREMRANGEBYSCORE', nodes, '-inf', '(' .. int(now_ms - dead_after_ms))
redis.call('ZADD', nodes, int(now_ms), node)

redis.call('HSET', clocks, node, int(clock_ms - now_ms) .. ' ' .. int(now_ms))

local fastest_ms = clock_ms
local said = redis.call('HGETALL', clocks)
for i = 1, #said, 2 do
  local ahead, at = string.match(said[i + 1], '^(%-?%d+) (%d+)$')
  local ahead_ms, at_ms = tonumber(ahead), tonumber(at)
  if not ahead_ms or not at_ms or math.abs(now_ms - at_ms) > clock_life_ms then
    redis.call('HDEL', clocks, said[i])
  elseif now_ms + ahead_ms <= clock_ms + max_ahead_ms then
    fastest_ms = math.max(fastest_ms, now_ms + ahead_ms)
  end
end

local reply = { now_us, latest[2] and int(now_ms - tonumber(latest[2])) or '-1', int(fastest_ms) }
for _, id in ipairs(redis.call('ZRANGE', nodes, 0, -1)) do reply[#reply + 1] = id end
return reply
