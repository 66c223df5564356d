-- Kind:    read
-- Does:    reports copies: first the given copies. With a limit, also live copies behind
--          a place in the order of scores that meet the conditions, except leased copies. Copies with the same score are in the
--          order of the bytes of the keys. If the place is at most hot_ms from now, the script also reports all leased copies that
--          meet the conditions, whatever the scores
-- KEYS:    due timers leases
-- ARGV:    after_ms after_key limit hot_ms state prefix text host tag
--          (An empty condition is no condition. state: waiting, leased or retrying. prefix: of the key. text: a part
--          of the key or of the URI, as JSON has the text. host: a part of the URI in lower case. tag: a type, percent-encoded)
-- ITEM:    key
-- Returns: now_us, the place of the last copy in the page ("score_ms key", "" at the end of the list), the number of copies
--          that the script looked at, then for each copy: key, "look_ms taken_ms bytes head" (look_ms: the score; taken_ms: when
--          the copy was leased, 0 without a lease; bytes: length of the record; head: the record's head), "" for a copy that is
--          missing or unreadable, and "picked repeat_for_ms tags rev uri" (picked: 1 if the copy meets the conditions; tags and
--          rev: - without such a word; uri: as JSON has the text, without the quotes), "" for a copy that is not live
-- Cost:    O(log² n + limit + keys), and O(leases) if leased copies are reported; a record for each copy, about 1 MB a page at most
-- Twice:   safe: reads
local due, timers, leases = KEYS[1], KEYS[2], KEYS[3]
local after_ms, after_key, limit, hot_ms = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local state, prefix, text, host, tag = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]

-- <record>

-- Redis does nothing else while a script runs, and a record may be a megabyte. Records are read together while records are
-- short.
local max_bytes, short_bytes, together = 1000000, 4000, 25

local reply, looked = { now_us, '', '0' }, 0

-- The URI of a live record as JSON has the text, and the position behind the URI. A quote within the text has an odd number of
-- backslashes before the quote.
local function uri_of(record, body)
  local from = body + 8
  local to = string.find(record, '"', from, true)
  while to do
    local back = to - 1
    while string.byte(record, back) == 92 do back = back - 1 end
    if (to - back) % 2 == 1 then return string.sub(record, from, to - 1), to + 1 end
    to = string.find(record, '"', to + 1, true)
  end
  return '', #record
end

local function has(whole, part) return part == '' or string.find(whole, part, 1, true) ~= nil end

local function state_of(record, lease)
  if lease then return 'leased' end
  return string.sub(record, 33, 35) == '000' and 'waiting' or 'retrying'
end

-- A member of the specification is found behind the URI: within the opaque every quote has a backslash.
local function repeat_for(record, from)
  local name = ',"repeat_for_ms":'
  local at = string.find(record, name, from, true)
  return at and string.match(record, '^%d+', at + #name) or '0'
end

-- Reports whether a copy may meet the conditions. Most copies of a long search do not, and the look is cheap.
local function may_be_picked(key, record, lease)
  return string.byte(record, 2) == 76 and string.sub(key, 1, #prefix) == prefix and (state == '' or state == state_of(record, lease)) and
    (text == '' or has(record, text) or has(key, text)) and (tag == '' or has(record, tag .. '='))
end

-- Says more of a live copy that is readable, and whether the copy meets the conditions. may: the answer of may_be_picked.
local function brief_of(key, record, may)
  local body = body_of(record)
  local words = body > head_width + 2 and string.sub(record, head_width + 1, body - 1) or ''
  local tags = string.match(words, ' tags=(%S+)') or '-'
  local uri, behind = uri_of(record, body)
  local picked = may and (host == '' or has(string.lower(uri), host)) and
    (tag == '' or has(',' .. tags, ',' .. tag .. '=')) and (has(key, text) or has(uri, text))
  return picked, (picked and '1 ' or '0 ') .. repeat_for(record, behind) .. ' ' .. tags .. ' ' .. (string.match(words, ' rev=(%S+)') or '-') .. ' ' .. uri
end

local function tell(key, score, record, lease, asked)
  local may = record and may_be_picked(key, record, lease)
  local there = record and score and (asked or may) and readable(record)
  local picked, brief = false, ''
  if there and string.byte(record, 2) == 76 then picked, brief = brief_of(key, record, may) end
  if not picked and not asked then return end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = key, '', brief
  if there then
    reply[n + 2] = int(tonumber(score)) .. ' ' .. (lease and string.match(lease, '^[^:]*:%d+:(%d+)') or '0') .. ' ' .. int(#record) .. ' ' ..
      (lease and head_of(parse(record, lease)) or string.sub(record, 1, head_width))
  end
end

for i = 10, #ARGV do
  local key = ARGV[i]
  tell(key, redis.call('ZSCORE', due, key), redis.call('HGET', timers, key), redis.call('HGET', leases, key), true)
end

-- Compares bytes, in the order of sorted sets: Lua's own comparison follows the server's locale.
local function behind(key)
  for n = 1, math.max(#key, #after_key) do
    local a, b = string.byte(key, n) or -1, string.byte(after_key, n) or -1
    if a ~= b then return a > b end
  end
  return false
end

-- The rank of the first copy behind the place.
local function first_behind()
  local at = int(after_ms)
  local first = redis.call('ZCOUNT', due, '-inf', '(' .. at)
  local last = first + redis.call('ZCOUNT', due, at, at)
  while first < last do
    local middle = math.floor((first + last) / 2)
    if behind(redis.call('ZRANGE', due, int(middle), int(middle))[1]) then last = middle else first = middle + 1 end
  end
  return first
end

-- Reports the copies of a page that are not leased, and notes the place of the last copy that was looked at.
local function page()
  local first, bytes = first_behind(), 0
  local found = redis.call('ZRANGE', due, int(first), int(first + limit - 1), 'WITHSCORES')
  local from = 1
  while from <= #found do
    local keys = {}
    local count = bytes <= short_bytes * looked and looked > 0 and together or 1
    for i = from, math.min(from + 2 * count, #found) - 1, 2 do keys[#keys + 1] = found[i] end
    local records, held = redis.call('HMGET', timers, unpack(keys)), redis.call('HMGET', leases, unpack(keys))
    for i, key in ipairs(keys) do
      looked = looked + 1
      local score, record = found[from + 2 * i - 1], records[i]
      if not held[i] then tell(key, score, record, false, false) end
      bytes = bytes + (record and #record or 0)
      if looked == limit or bytes >= max_bytes then
        reply[2] = int(tonumber(score)) .. ' ' .. key
        return
      end
    end
    from = from + 2 * #keys
  end
end

if limit > 0 then
  page()
  if after_ms <= now_ms + hot_ms then
    local held = redis.call('HGETALL', leases)
    for i = 1, #held, 2 do
      local key = held[i]
      if string.sub(key, 1, #prefix) == prefix and (state == '' or state == 'leased') then
        tell(key, redis.call('ZSCORE', due, key), redis.call('HGET', timers, key), held[i + 1], false)
      end
    end
  end
end
reply[3] = int(looked)
return reply
