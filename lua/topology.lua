-- Kind:    topology
-- Does:    lets a single node at a time change the topology: "lock" (for hold_ms, unless somebody else has the lock), "store"
--          (needs the lock, and never replaces a topology of the same or a later epoch), "unlock"
-- KEYS:    topology
-- ARGV:    what token hold_ms epoch change new
--          (new: the topology to store, which begins with "epoch change ")
-- Returns: now_us, then locked, stored, same, newer (another topology is stored), unlocked (the token has no lock now), or held
--          (the token does not have the lock)
-- Cost:    O(1)
-- Twice:   safe: the second call finds the same
local topology = KEYS[1]
local what, token, hold_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local epoch, change, new = tonumber(ARGV[4]), ARGV[5], ARGV[6]

local holder, free_at = redis.call('HGET', topology, 'holder'), tonumber(redis.call('HGET', topology, 'held_until_ms') or '0')
local free = not holder or free_at <= now_ms

if what == 'lock' then
  if not free and holder ~= token then return { now_us, 'held' } end
  redis.call('HSET', topology, 'holder', token, 'held_until_ms', int(now_ms + hold_ms))
  return { now_us, 'locked' }
end
if what == 'unlock' then
  if holder == token then redis.call('HDEL', topology, 'holder', 'held_until_ms') end
  return { now_us, 'unlocked' }
end
if free or holder ~= token then return { now_us, 'held' } end
local old_epoch, old_change = string.match(redis.call('HGET', topology, 'current') or '', '^(%d+) (%S+) ')
if old_epoch then
  if tonumber(old_epoch) == epoch and old_change == change then return { now_us, 'same' } end
  if tonumber(old_epoch) >= epoch then return { now_us, 'newer' } end
end
redis.call('HSET', topology, 'current', new)
return { now_us, 'stored' }
