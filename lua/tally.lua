-- Kind:    read
-- Does:    adds up the tags of the live copies of rank 0 on a page of a partition's timers, and counts the tombstones on
--          the page. Pages are in the order of the hash: no timer is missed that comes due or is put off meanwhile, and only a hash
--          that grows or shrinks meanwhile may show a timer twice
-- KEYS:    timers
-- ARGV:    cursor limit
--          (cursor: the cursor of HSCAN, 0 to begin with)
-- Returns: now_us, the next cursor (0 after the last page), then for each type: "type sum", for tombstones "+ number"
-- Cost:    O(limit)
-- Twice:   safe: reads
local timers = KEYS[1]
local cursor, limit = ARGV[1], tonumber(ARGV[2])

-- <record>

-- Few records are read together, since a record may be a megabyte.
local together, looked = 50, 0
repeat
  local page = redis.call('HSCAN', timers, cursor, 'COUNT', together)
  cursor, looked = page[1], looked + together
  for i = 2, #page[2], 2 do
    local record = page[2][i]
    -- Most records are live, without words, and count nothing.
    if not (string.byte(record, 2) == 76 and string.byte(record, head_width + 2) == 123) then
      local c = parse(record)
      if c then count(c, 1) end
    end
  end
until cursor == '0' or looked >= limit

local reply = { now_us, cursor }
for tag, sum in pairs(counted or {}) do reply[#reply + 1] = tag .. ' ' .. int(sum) end
return reply
