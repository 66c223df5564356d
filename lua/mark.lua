-- Kind:    marks
-- Does:    notes the timers of which another site is not told yet. A mark that is there already keeps the time of the mark. Once
--          most marks are there, the mark "*" stands for all further timers, and "*again" says that the mark "*" was made again
-- KEYS:    untold marked
-- ARGV:    most
-- ITEM:    mark key
--          (mark: +key for a write, =key for the outcome of a callback)
-- Returns: now_us
-- Cost:    O(items · log n)
-- Twice:   safe: the second call finds the marks
local untold, marked = KEYS[1], KEYS[2]
local most = tonumber(ARGV[1])

redis.call('ZREM', untold, '') -- a Redis at its maxmemory takes what follows a removal
local all = redis.call('ZCOUNT', untold, '-inf', '+inf')

-- marked counts the marks of a timer for all sites.
local function note(mark, key)
  if redis.call('ZADD', untold, 'NX', int(now_ms), mark) == 0 then return false end
  redis.call('HINCRBY', marked, key, 1)
  all = all + 1
  return true
end

for i = 2, #ARGV, 2 do
  local mark, key = ARGV[i], ARGV[i + 1]
  if all < most then
    note(mark, key)
  elseif not redis.call('ZSCORE', untold, mark) and not note('*', '*') then
    redis.call('ZADD', untold, int(now_ms), '*again')
  end
end
return { now_us }
