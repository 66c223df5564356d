-- Kind:    leased
-- Does:    the fence: checks that the lease has the token, and that the timer is due. Then counts the attempt, and marks the
--          timer as firing until now + limit. Another node may take over at now + hold. A pop that had an attempt makes
--          room for the next pop if the next pop is overdue, too. With more than catch_up overdue pops, only the latest pop
--          is called. A pop overdue by more than expires_ms is left out, and so is every further overdue pop. A token that has passed the fence before renews mark and hold, and counts no attempt. The script notes everything
--          in the lease, and does not touch the record.
-- KEYS:    due leases
-- ARGV:    limit_ms hold_ms catch_up
-- ITEM:    key token score_ms not_after_ms found
--          (score_ms: as the claim found the score. found: "seq attempt firing_ms left start_ms interval_ms pops expires_ms", as
--          the claim found the values, expires_ms 0 for none; - for the first attempt at the only pop of a timer that never expires)
-- Returns: now_us, then for each item: "passed seq attempt left", "expired seq attempt left" (no overdue pop may be called any
--          more), "early wait_ms" (due in wait_ms), "lost" (another lease is there), "lost free" (no lease is there), "stale" (after
--          not_after_ms)
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

-- The mark of a passed fence ends after an earlier mark. The mark of an expired pop ends with the earlier mark.
local function note(key, token, foreign, seq, attempt, left, expired, lease)
  local n = #scores
  local marks = mark
  if expired then
    marks = ' ' .. int(foreign) .. ' ' .. int(foreign) .. ' '
  elseif foreign > 0 then
    marks = ' ' .. int(foreign) .. ' ' .. int(math.max(mark_ms, foreign + 1)) .. ' '
  end
  if revised(lease, token) then marks = ' 0' .. string.sub(marks, 2) end
  local text = token .. marks .. seq .. ' ' .. attempt .. ' ' .. left
  scores[n + 1], scores[n + 2] = next_look, key
  notes[n + 1], notes[n + 2] = key, text
  noted[key] = text
end

-- The pop and the attempt that the fence goes to, the number of pops left out, the end of an earlier firing mark, and
-- whether the pop has expired.
local function upcoming(found)
  local seq, attempt, firing, left, start, interval, pops, expires =
    string.match(found, '^(-?%d+) (-?%d+) (-?%d+) (-?%d+) (-?%d+) (-?%d+) (-?%d+) (-?%d+)$')
  seq, attempt, firing, left, start = tonumber(seq), tonumber(attempt), tonumber(firing), tonumber(left), tonumber(start)
  interval, pops, expires = tonumber(interval), tonumber(pops), tonumber(expires)
  local latest = pops > 1 and interval > 0 and math.min(pops, math.floor((now_ms - start) / interval)) or seq
  if expires > 0 and interval > 0 then
    local first = math.min(latest, math.ceil((now_ms - expires - start) / interval)) -- that has not expired
    if first > seq then left, seq, attempt = left + first - seq - (attempt > 0 and 1 or 0), first, 0 end
  end
  if latest > seq and attempt > 0 then seq, attempt = seq + 1, 0 end
  if latest - seq >= catch_up then left, seq = left + latest - seq, latest end
  local expired = expires > 0 and now_ms > start + seq * interval + expires
  return int(seq), int(expired and attempt or math.min(attempt + 1, 999)), int(left), firing > now_ms and firing or 0, expired
end

local function fence(i, lease)
  local key, token, score_ms, not_after_ms, found = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), ARGV[i + 4]
  local foreign = lease ~= token and fired(lease, token)
  if lease ~= token and not foreign then return lease == '' and 'lost free' or 'lost' end
  if now_ms > not_after_ms then return 'stale' end
  local seq, attempt, left, expired = '1', '1', '0', false
  if foreign then
    local own
    own, seq, attempt, left = string.match(lease, '(%d+) (%d+) (%d+) (%d+)$')
    expired = tonumber(own) == foreign
  elseif score_ms > now_ms then
    return 'early ' .. int(score_ms - now_ms)
  elseif found ~= '-' then
    seq, attempt, left, foreign, expired = upcoming(found)
  end
  note(key, token, foreign or 0, seq, attempt, left, expired, lease)
  return (expired and 'expired ' or 'passed ') .. seq .. ' ' .. attempt .. ' ' .. left
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
