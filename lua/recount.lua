-- Kind:    merge
-- Does:    corrects sums of tags, and the number of tombstones. A count of all timers of the partition has found the values
--          to be wrong; the script changes only values that are still the same
-- KEYS:    tags
-- ARGV:
-- ITEM:    tag was is
-- Returns: now_us, "ok"
-- Cost:    O(items)
-- Twice:   safe: the second call finds other sums
local tags = KEYS[1]

for i = 1, #ARGV, 3 do
  local tag, was, is = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if (redis.call('HGET', tags, tag) or '0') == was then
    if is == '0' then redis.call('HDEL', tags, tag) else redis.call('HSET', tags, tag, is) end
  end
end
return { now_us, 'ok' }
