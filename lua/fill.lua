-- Kind:    fill
-- Does:    notes which sites' timers the shard has, and how far a fill is, unless the shard has lost an earlier note
-- KEYS:    filled
-- ARGV:    before
--          (before: the earlier note; "" for none)
-- ITEM:    note
-- Returns: now_us, "noted" or "lost"
-- Cost:    O(items)
-- Twice:   safe: the second call makes the same notes
local filled = KEYS[1]
local before = ARGV[1]

if before ~= '' and not redis.call('HGET', filled, before) then return { now_us, 'lost' } end
for i = 2, #ARGV do
  local note = ARGV[i]
  redis.call('HSET', filled, note, now_us)
end
return { now_us, 'noted' }
