-- Kind:    leased
-- Does:    the fence: checks that the lease has the token, and that the timer is due. Then counts the attempt, and marks the
--          timer as firing until now + limit. Another node may take over at now + hold. A pop that had an attempt makes
--          room for the next pop if the next pop is overdue, too. With more than catch_up overdue pops, only the latest pop
--          is called. A token that has passed the fence before renews mark and hold, and counts no attempt. The script notes everything
--          in the lease, and does not touch the record.
-- KEYS:    due leases
-- ARGV:    limit_ms hold_ms catch_up
-- ITEM:    key token score_ms seq attempt start_ms interval_ms firing_ms left pops not_after_ms
--          (score_ms, seq, attempt, start_ms, interval_ms, firing_ms, left: as the claim found the values)
-- Returns: now_us, then for each item: "status seq attempt due_ms wait_ms left"; status passed, early (due in wait_ms), lost
--          (the lease does not have the token), late (after not_after_ms); after lost all numbers are 0
-- Cost:    O(items · log n)
-- Twice:   safe: the second call renews
local due, leases = KEYS[1], KEYS[2]
local limit_ms, hold_ms, catch_up = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local keys = {}
for i = 4, #ARGV, 11 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end
local held = redis.call('HMGET', leases, unpack(keys))

local scores, notes, noted = {}, {}, {}
local next_look, mark = int(now_ms + hold_ms), now_ms + limit_ms

local function pass(key, token, foreign, seq, attempt, left)
  local n = #scores
  local note = token .. ' ' .. int(foreign) .. ' ' .. int(math.max(mark, foreign)) .. ' ' .. int(seq) .. ' ' .. int(attempt) .. ' ' .. int(left)
  scores[n + 1], scores[n + 2] = next_look, key
  notes[n + 1], notes[n + 2] = key, note
  noted[key] = note
end

local reply = { now_us }
for i = 4, #ARGV, 11 do
  local key, token, score, seq, attempt = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local start, interval, firing = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7])
  local left, pops, not_after_ms = tonumber(ARGV[i + 8]), tonumber(ARGV[i + 9]), tonumber(ARGV[i + 10])
  local item = #reply
  local lease = noted[key] or held[item] or ''
  local foreign = fired(lease, token)
  if foreign then seq, attempt, left = string.match(lease, '(%d+) (%d+) (%d+)$') end
  local status, wait = 'passed', 0
  if lease ~= token and not foreign then
    status = 'lost'
  elseif now_ms > not_after_ms then
    status = 'late'
  elseif foreign then
    pass(key, token, foreign, seq, attempt, left)
  elseif score > now_ms then
    status, wait = 'early', score - now_ms
  else
    local latest = pops > 1 and interval > 0 and math.min(pops, math.floor((now_ms - start) / interval)) or seq
    if latest > seq and attempt > 0 then seq, attempt = seq + 1, 0 end
    if latest - seq >= catch_up then left, seq = left + latest - seq, latest end
    attempt = math.min(attempt + 1, 999)
    pass(key, token, firing > now_ms and firing or 0, seq, attempt, left)
  end
  if status == 'lost' then
    reply[item + 1] = 'lost 0 0 0 0 0'
  else
    reply[item + 1] = status .. ' ' .. int(seq) .. ' ' .. int(attempt) .. ' ' .. int(start + seq * interval) .. ' ' .. int(wait) .. ' ' .. int(left)
  end
end

if #scores > 0 then
  redis.call('ZREM', due, scores[2])
  redis.call('ZADD', due, unpack(scores))
  redis.call('HSET', leases, unpack(notes))
end
return reply
