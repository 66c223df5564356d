-- Kind:    marks
-- Does:    notes which sites' timers the shard has, unless the shard has lost an earlier note
-- KEYS:    filled
-- ARGV:    before note...
--          (before: the earlier note; "" for none)
-- Returns: now_us, "noted" or "lost"
-- Cost:    O(notes)
-- Twice:   safe: the second call makes the same notes
local filled, before = KEYS[1], ARGV[1]

if before ~= '' and not redis.call('HGET', filled, before) then return { now_us, 'lost' } end
for i = 2, #ARGV do redis.call('HSET', filled, ARGV[i], now_us) end
return { now_us, 'noted' }
