-- Kind:    merge
-- Does:    corrects sums of tags, and the number of tombstones, by what a count of all timers of the partition has found them to be off, if nothing was
--          written since
-- KEYS:    timers tags
-- ARGV:    counter
--          (counter: the write counter of that count)
-- ITEM:    tag by
-- Returns: now_us, then "ok", or "changed" if something was written
-- Cost:    O(items)
-- Twice:   safe: the first has raised the write counter
local timers, tags = KEYS[1], KEYS[2]
local counter = ARGV[1]

if (redis.call('HGET', timers, '#') or '0') ~= counter then return { now_us, 'changed' } end
for i = 2, #ARGV, 2 do
  local tag, by = ARGV[i], ARGV[i + 1]
  if redis.call('HINCRBY', tags, tag, by) <= 0 then redis.call('HDEL', tags, tag) end
end
redis.call('HINCRBY', timers, '#', 1)
return { now_us, 'ok' }
