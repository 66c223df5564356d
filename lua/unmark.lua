-- Kind:    marks
-- Does:    removes marks of timers of which the other site was told, where the copy has nothing that was not told
-- KEYS:    timers leases untold marked
-- ARGV:
-- ITEM:    mark key state
--          (state: the begin of a record, up to the attempt, and the revision behind a space; "-" if the timer had no copy)
-- Returns: now_us
-- Cost:    O(items · log n)
-- Twice:   safe: the second call finds no mark
local timers, leases, untold, marked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- <record>
-- Reports whether a state has all that the copy has (rule "order of states"). An unreadable record has more.
local function covers(state, key)
  local record = redis.call('HGET', timers, key)
  if not record then return true end
  local c = parse(record, redis.call('HGET', leases, key))
  if not c or state == '-' then return false end
  local newer = compare_versions(string.sub(state, 4, 19), c.version)
  if newer ~= 0 then return newer > 0 end
  if string.byte(state, 2) == 84 then return true end
  local pops, rev = tonumber(string.sub(state, 21, 31)) - c.seq, string.sub(state, state_width + 2)
  if c.ended or pops < 0 or pops == 0 and tonumber(string.sub(state, 33, 35)) < c.attempt then return false end
  return c.rev == '-' or rev ~= '' and compare_versions(rev, c.rev) >= 0
end

-- A mark for all that was made again while all were told stays, until all are told once more.
local function again(mark) return mark == '*' and redis.call('ZREM', untold, '*again') == 1 end

for i = 1, #ARGV, 3 do
  local mark, key, state = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if covers(state, key) and not again(mark) and redis.call('ZREM', untold, mark) == 1 and redis.call('HINCRBY', marked, key, -1) <= 0 then
    redis.call('HDEL', marked, key)
  end
end
return { now_us }
