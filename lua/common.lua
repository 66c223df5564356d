-- Prepended to every script: the shard's clock and the record's header.
-- A record is `version seq attempt rank rf site away start_ms interval_ms
-- firing_until_ms failure tags body_hash {json}`; a tombstone has no {json}.

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- Lua writes a number of 15 digits and more in exponent form; %d is several times faster than %.0f.
local function int(n) return string.format('%d', n) end

-- What a passed fence has noted in the lease counts: where nobody writes the record anew, it stays there alone.
local function parse(record, lease)
  local version, seq, attempt, rank, rf, site, away, start, interval, firing, failure, tags, body_hash, body =
    string.match(record, '^(%x+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%-?%d+) (%d+) (%S+) (%S+) (%S+) (%S+) ?(.*)$')
  if not version then return nil end
  if lease then
    local mark, noted_seq, noted_attempt = string.match(lease, ' %d+ (%d+) (%d+) (%d+)$')
    if mark then firing, seq, attempt = mark, noted_seq, noted_attempt end
  end
  return {
    version = version, seq = tonumber(seq), attempt = tonumber(attempt), rank = tonumber(rank), rf = rf,
    site = site, away = away, start = tonumber(start), interval = tonumber(interval),
    firing = tonumber(firing) or 0, failure = failure, tags = tags, body_hash = body_hash, body = body,
    ended = string.sub(body, 1, 1) ~= '{',
  }
end

local function format(c)
  local firing = '-'
  if c.firing > now_ms then firing = int(c.firing) end
  local head = c.version .. ' ' .. int(c.seq) .. ' ' .. int(c.attempt) .. ' ' .. int(c.rank) .. ' ' .. c.rf .. ' ' ..
    c.site .. ' ' .. c.away .. ' ' .. int(c.start) .. ' ' .. int(c.interval) .. ' ' .. firing .. ' ' ..
    c.failure .. ' ' .. c.tags .. ' ' .. c.body_hash
  if c.body == '' then return head end
  return head .. ' ' .. c.body
end

-- Two lists of shard:rank, or - for none, as one.
local function union(a, b)
  if a == '-' or a == b then return b end
  if b == '-' then return a end
  local all = a
  for name in string.gmatch(b, '[^,]+') do
    if not string.find(',' .. a .. ',', ',' .. name .. ',', 1, true) then all = all .. ',' .. name end
  end
  return all
end

-- What copies that came (sign 1) or went (-1) add to the sums of tags, by type as it is encoded; nil if nothing. A script
-- writes the sums at its end. Live copies of rank 0 count by their tags, tombstones under + whatever their rank: an
-- encoded type has no +.
local counted
local function count(c, sign)
  if not c.ended and (c.rank ~= 0 or c.tags == '-') then return end
  counted = counted or {}
  if c.ended then
    counted['+'] = (counted['+'] or 0) + sign
    return
  end
  for tag, n in string.gmatch(c.tags, '([^=,]+)=(%d+)') do counted[tag] = (counted[tag] or 0) + sign * n end
end

-- A lease is `node:counter:taken_ms`; once its fence has passed ` foreign_ms mark_ms seq attempt` follows: the end of a
-- firing mark that an earlier state's fence had set (0 if none), the end of its own, the pop and the attempt.
-- fired says foreign_ms of a token whose fence has passed, nil of others.
local function fired(lease, token)
  local n = #token + 1
  if string.sub(lease, 1, n) ~= token .. ' ' then return nil end
  return tonumber(string.match(lease, '^%d+', n + 1)) or 0
end
