-- Kind:    letters
-- Does:    removes dead letters that are older than keep_ms, the oldest first, and no more letters than most
-- KEYS:    dead
-- ARGV:    keep_ms most
-- Returns: now_us, how many letters were removed
-- Cost:    O(log n + most)
-- Twice:   safe: the second call also removes only letters older than keep_ms
local dead = KEYS[1]
local keep_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2])

local old = redis.call('ZCOUNT', dead, '-inf', '(' .. int(now_ms - keep_ms))
local removed = math.min(old, most)
if removed > 0 then redis.call('ZREMRANGEBYRANK', dead, 0, removed - 1) end
return { now_us, removed }
