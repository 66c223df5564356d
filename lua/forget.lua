-- Kind:    marks
-- Does:    removes the oldest marks for a site that is no site any more
-- KEYS:    untold marked
-- ARGV:    most
-- Returns: now_us, "more" if marks are left, otherwise "none"
-- Cost:    O(most · log n)
-- Twice:   safe: the second call removes further marks
local untold, marked = KEYS[1], KEYS[2]
local most = tonumber(ARGV[1])

for _, mark in ipairs(redis.call('ZRANGE', untold, 0, most - 1)) do
  redis.call('ZREM', untold, mark)
  local key = mark == '*' and '*' or string.sub(mark, 2)
  if mark ~= '*again' and redis.call('HINCRBY', marked, key, -1) <= 0 then redis.call('HDEL', marked, key) end
end
return { now_us, redis.call('ZCOUNT', untold, '-inf', '+inf') > 0 and 'more' or 'none' }
