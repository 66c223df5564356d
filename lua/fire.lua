-- Kind:    leased
-- Does:    the fence: checks that the lease has the token, and that the timer is due. Then counts the attempt, and marks the
--          timer as firing until now + limit. Another node may take over at now + hold. A pop that had an attempt makes
--          room for the next pop if the next pop is overdue, too. With more than catch_up overdue pops, only the latest pop
--          is called. A token that has passed the fence before renews mark and hold, and counts no attempt. The script notes everything
--          in the lease, and does not touch the record.
-- KEYS:    due leases
-- ARGV:    limit_ms hold_ms catch_up
-- ITEM:    key token score_ms not_after_ms found
--          (score_ms: as the claim found the score. found: "seq attempt firing_ms left start_ms interval_ms pops", as the
--          claim found the values; - for the first attempt at the only pop of a timer)
-- Returns: now_us, then for each item: "passed seq attempt left", "early wait_ms" (due in wait_ms), "lost" (the lease does
--          not have the token), "expired" (after not_after_ms)
-- Cost:    O(items · log n)
-- Twice:   safe: the second call renews
local due, leases = KEYS[1], KEYS[2]
local limit_ms, hold_ms, catch_up = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local keys = {}
for i = 4, #ARGV, 5 do
  local key = ARGV[i]
  keys[#keys + 1] = key
end
local held = redis.call('HMGET', leases, unpack(keys))

local scores, notes, noted = {}, {}, {}
local next_look, mark_ms = int(now_ms + hold_ms), now_ms + limit_ms
local mark = ' 0 ' .. int(mark_ms) .. ' '

local function pass(key, token, foreign, seq, attempt, left)
  local n = #scores
  local marks = foreign == 0 and mark or ' ' .. int(foreign) .. ' ' .. int(math.max(mark_ms, foreign)) .. ' '
  local note = token .. marks .. seq .. ' ' .. attempt .. ' ' .. left
  scores[n + 1], scores[n + 2] = next_look, key
  notes[n + 1], notes[n + 2] = key, note
  noted[key] = note
end

-- The pop and the attempt that the fence goes to, the number of pops left out, and the end of an earlier firing mark.
local function upcoming(found)
  local seq, attempt, firing, left, start, interval, pops = string.match(found, '^(-?%d+) (-?%d+) (-?%d+) (-?%d+) (-?%d+) (-?%d+) (-?%d+)$')
  seq, attempt, firing, left, start = tonumber(seq), tonumber(attempt), tonumber(firing), tonumber(left), tonumber(start)
  interval, pops = tonumber(interval), tonumber(pops)
  local latest = pops > 1 and interval > 0 and math.min(pops, math.floor((now_ms - start) / interval)) or seq
  if latest > seq and attempt > 0 then seq, attempt = seq + 1, 0 end
  if latest - seq >= catch_up then left, seq = left + latest - seq, latest end
  return int(seq), int(math.min(attempt + 1, 999)), int(left), firing > now_ms and firing or 0
end

local function fence(i, lease)
  local key, token, score_ms, not_after_ms, found = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), ARGV[i + 4]
  local foreign = lease ~= token and fired(lease, token)
  if lease ~= token and not foreign then return 'lost' end
  if now_ms > not_after_ms then return 'expired' end
  local seq, attempt, left = '1', '1', '0'
  if foreign then
    seq, attempt, left = string.match(lease, '(%d+) (%d+) (%d+)$')
  elseif score_ms > now_ms then
    return 'early ' .. int(score_ms - now_ms)
  elseif found ~= '-' then
    seq, attempt, left, foreign = upcoming(found)
  end
  pass(key, token, foreign or 0, seq, attempt, left)
  return 'passed ' .. seq .. ' ' .. attempt .. ' ' .. left
end

local reply = { now_us }
for i = 4, #ARGV, 5 do
  local key, item = ARGV[i], #reply
  reply[item + 1] = fence(i, noted[key] or held[item] or '')
end

if #scores > 0 then
  redis.call('ZREM', due, scores[2])
  redis.call('ZADD', due, unpack(scores))
  redis.call('HSET', leases, unpack(notes))
end
return reply
