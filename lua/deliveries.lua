-- Kind:    read
-- Does:    lists attempts of the log of deliveries, the newest first, from a position on; with a key only those at the pops of one
--          timer. An entry that is no attempt, or too long for an attempt, is listed with an empty text
-- KEYS:    deliveries
-- ARGV:    from since key look
--          (from and since: the positions of the newest and the oldest entry, as XREVRANGE takes positions. A bracket before a
--          position leaves the entry there out. key: empty for all timers. look: how many entries are looked at, at most; fewer
--          where entries are very long)
-- Returns: now_us, "more" or "end", the position of the last entry that was looked at ("-" for none), the number of entries
--          that were looked at, then for each attempt: the position, the text
-- Cost:    O(log n + look)
-- Twice:   safe: reads
local deliveries = KEYS[1]
local from, since, key, look = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- An attempt is shorter than max_text. Few entries are read together, since somebody else may have written megabytes.
local together, max_text, max_bytes = 100, 4096, 1000000
local prefix = key .. ' '

local reply, looked, bytes = { now_us, 'end', '-', '0' }, 0, 0

while from and looked < look and bytes < max_bytes do
  local most = math.min(together, look - looked)
  local found = redis.pcall('XREVRANGE', deliveries, from, since, 'COUNT', int(most))
  if found.err then break end -- something else has the name of the log
  for i = 1, #found do
    local fields = found[i][2]
    local text = fields[2]
    bytes = bytes + #text
    for k = 3, #fields do bytes = bytes + #fields[k] end
    if #fields > 2 or fields[1] ~= 'attempt' or #text > max_text then text = '' end
    if key == '' or string.sub(text, 1, #prefix) == prefix then
      reply[#reply + 1], reply[#reply + 2] = found[i][1], text
    end
  end
  if #found > 0 then reply[3] = found[#found][1] end
  looked = looked + #found
  from = #found == most and '(' .. reply[3] or nil
end
if from then
  local further = redis.pcall('XREVRANGE', deliveries, from, since, 'COUNT', '1')
  if not further.err and #further > 0 then reply[2] = 'more' end
end
reply[4] = int(looked)
return reply
