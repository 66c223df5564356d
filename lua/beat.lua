-- Kind:    node
-- Does:    announces a node on the shard and forgets those that were silent for dead_after
-- KEYS:    nodes
-- ARGV:    node dead_after_ms
-- Returns: now_us, how long ago in ms the latest announcement before this one was (-1 if there is none), then the ids of the
--          nodes that live, this one among them
-- Cost:    O(nodes)
-- Twice:   safe: the second announces again
local nodes = KEYS[1]
local node, dead_after_ms = ARGV[1], tonumber(ARGV[2])

local latest = redis.call('ZRANGE', nodes, -1, -1, 'WITHSCORES')
redis.call('ZREM', nodes, node)
redis.call('ZREMRANGEBYSCORE', nodes, '-inf', '(' .. int(now_ms - dead_after_ms))
redis.call('ZADD', nodes, int(now_ms), node)

local reply = { now_us, latest[2] and int(now_ms - tonumber(latest[2])) or '-1' }
for _, id in ipairs(redis.call('ZRANGE', nodes, 0, -1)) do reply[#reply + 1] = id end
return reply
