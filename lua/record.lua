-- Stands in every script that reads or writes records. A record is a head of fixed width, then words, then the
-- specification of a live timer (lua/README.md, Record):
-- 1L 01a1fb841564b7e9 00000000001 000 00 02 0000003600000 +01795221099878 tags=call=1 {json}

-- state_width covers format, state, version, seq and attempt; head_width covers the whole head.
local state_width, head_width = 35, 71

local function head_of(c)
  return string.format('%s %s %011d %03d %02d %02d %013d %+015d', c.ended and '1T' or c.format .. 'L', c.version, c.seq, c.attempt, c.rank,
    c.rf, c.interval, c.start)
end

-- The position at which the specification begins; nil for a tombstone.
local function body_of(record)
  if string.byte(record, head_width + 2) == 123 then return head_width + 2 end
  local space = string.find(record, ' {', head_width + 1, true)
  return space and space + 1
end

local head_pattern = '^[12][LT] %x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x %d%d%d%d%d%d%d%d%d%d%d %d%d%d %d%d %d%d %d%d%d%d%d%d%d%d%d%d%d%d%d [+-]%d%d%d%d%d%d%d%d%d%d%d%d%d%d'

-- A live record has a specification; a tombstone has no specification.
local function readable(record)
  return string.find(record, head_pattern) and (string.byte(record, 2) == 84) == not body_of(record)
end

-- Reports whether a later chronos has written the record, in a later format. Scripts leave the record as it is, and read
-- only the parts with the same place in every format: number, state and version.
local function later(record)
  return (string.byte(record, 1) or 0) > 50 and string.find(record, '^[3-9]%u ' .. string.rep('[%da-f]', 16) .. ' ') ~= nil
end

-- Takes apart a readable record.
local function read(record)
  local body = body_of(record)
  local c = {
    format = string.sub(record, 1, 1), ended = string.byte(record, 2) == 84, version = string.sub(record, 4, 19),
    seq = tonumber(string.sub(record, 21, 31)), attempt = tonumber(string.sub(record, 33, 35)),
    rank = tonumber(string.sub(record, 37, 38)), rf = tonumber(string.sub(record, 40, 41)),
    interval = tonumber(string.sub(record, 43, 55)), start = tonumber(string.sub(record, 57, 71)),
    firing = 0, left = 0, rev = '-', failure = '-', tags = '-', hash = '-', away = '-', site = '-', body = body and string.sub(record, body) or '',
  }
  if body ~= head_width + 2 and #record > head_width then
    for name, value in string.gmatch(string.sub(record, head_width + 1, (body or 0) - 1), ' (%l+)=(%S+)') do
      if name == 'mark' then c.firing = tonumber(value) or 0 elseif name == 'left' then c.left = tonumber(value) or 0 elseif c[name] == '-' then c[name] = value end
    end
  end
  return c
end

-- Reads the notes of a passed fence in a lease: the end of the firing mark, the pop, the attempt and the pops left out.
-- Returns nil before the fence has passed.
local function fence_noted(lease) return string.match(lease, ' %d+ (%d+) (%d+) (%d+) (%d+)$') end

-- The notes of a passed fence in the lease replace the values of the record: until a script next writes the record, only
-- the lease has the notes. Returns nil for an unreadable record.
local function parse(record, lease)
  if not readable(record) then return nil end
  local c = read(record)
  if lease then
    local mark, seq, attempt, left = fence_noted(lease)
    if mark then c.firing, c.seq, c.attempt, c.left = tonumber(mark), tonumber(seq), tonumber(attempt), tonumber(left) end
  end
  return c
end

local function format(c)
  local text = head_of(c)
  if c.firing > now_ms then text = text .. ' mark=' .. int(c.firing) end
  if c.failure ~= '-' then text = text .. ' failure=' .. c.failure end
  if c.left > 0 then text = text .. ' left=' .. int(c.left) end
  if c.rev ~= '-' then text = text .. ' rev=' .. c.rev end
  if c.tags ~= '-' then text = text .. ' tags=' .. c.tags end
  if c.hash ~= '-' then text = text .. ' hash=' .. c.hash end
  if c.away ~= '-' then text = text .. ' away=' .. c.away end
  if c.site ~= '-' then text = text .. ' site=' .. c.site end
  if c.body ~= '' then text = text .. ' ' .. c.body end
  return text
end

-- Versions are compared as numbers: Lua compares strings by the server's locale, and some locales sort aa after ff.
-- Milliseconds and tag are compared separately: a number holds 53 bits.
local function compare_versions(a, b)
  local older = tonumber(string.sub(a, 1, 12), 16) - tonumber(string.sub(b, 1, 12), 16)
  if older ~= 0 then return older end
  return tonumber(string.sub(a, 13, 16), 16) - tonumber(string.sub(b, 13, 16), 16)
end

-- Joins two lists of shard:rank, and lists no name twice; - stands for an empty list.
local function union(a, b)
  if a == '-' or a == b then return b end
  if b == '-' then return a end
  local all = a
  for name in string.gmatch(b, '[^,]+') do
    if not string.find(',' .. a .. ',', ',' .. name .. ',', 1, true) then all = all .. ',' .. name end
  end
  return all
end

-- The changes to the sums of tags, by encoded type; nil before a copy is counted. A script writes the sums last. Live
-- copies of rank 0 count by tags. Tombstones of every rank count under +: an encoded type contains no +.
local counted
-- Counts a copy that comes (sign 1) or goes (sign -1).
local function count(c, sign)
  if not c.ended and (c.rank ~= 0 or c.tags == '-') then return end
  counted = counted or {}
  if c.ended then
    counted['+'] = (counted['+'] or 0) + sign
    return
  end
  for tag, n in string.gmatch(c.tags, '([^=,]+)=(%d+)') do counted[tag] = (counted[tag] or 0) + sign * n end
end
