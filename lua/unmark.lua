-- Kind:    marks
-- Does:    removes marks of timers of which the other site was told, where the copy still is in the state that was told
-- KEYS:    timers leases untold marked
-- ARGV:
-- ITEM:    mark key state
--          (state: the begin of a record, up to the attempt, and the revision behind a space; "-" if the timer had no copy)
-- Returns: now_us
-- Cost:    O(items · log n)
-- Twice:   safe: the second call finds no mark
local timers, leases, untold, marked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- <record>
-- The state of the copy, like the state of an item; nil for an unreadable record.
local function state_of(key)
  local record = redis.call('HGET', timers, key)
  if not record then return '-' end
  local c = parse(record, redis.call('HGET', leases, key))
  if not c then return nil end
  local state = string.sub(head_of(c), 2, state_width)
  return c.rev ~= '-' and not c.ended and state .. ' ' .. c.rev or state
end

for i = 1, #ARGV, 3 do
  local mark, key, state = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local is = state_of(key)
  if (state == is or string.sub(state, 2) == is) and redis.call('ZREM', untold, mark) == 1 and redis.call('HINCRBY', marked, key, -1) <= 0 then
    redis.call('HDEL', marked, key)
  end
end
return { now_us }
