-- Kind:    read
-- Does:    adds up the tags of the live copies of rank 0 among some of a partition's timers, and counts the tombstones
--          among them, in the order of due
-- KEYS:    due timers
-- ARGV:    first limit
--          (first: from 0)
-- Returns: now_us, how many timers were looked at, then for each type: "type sum", of tombstones "+ number"
-- Cost:    O(log n + limit)
-- Twice:   safe: reads
local due, timers = KEYS[1], KEYS[2]
local first, limit = tonumber(ARGV[1]), tonumber(ARGV[2])

-- Records, which may be a megabyte each, are read few together.
local together = 50
local page = redis.call('ZRANGE', due, int(first), int(first + limit - 1))
for from = 1, #page, together do
  local to = math.min(from + together - 1, #page)
  local records = redis.call('HMGET', timers, unpack(page, from, to))
  for i = 1, to - from + 1 do
    local record = records[i]
    -- Most are live and without words.
    if record and not (string.byte(record, 2) == 76 and string.byte(record, head_width + 2) == 123) then
      local c = parse(record)
      if c then count(c, 1) end
    end
  end
end

local reply = { now_us, int(#page) }
for tag, sum in pairs(counted or {}) do reply[#reply + 1] = tag .. ' ' .. int(sum) end
return reply
