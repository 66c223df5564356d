-- Prepended to every script: the shard's clock, and the notes of a lease.

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- Lua writes a number of 15 digits and more in exponent form; %d is several times faster than %.0f.
local function int(n) return string.format('%d', n) end

-- A lease is `node:counter:taken_ms`. Once the fence has passed, ` foreign_ms mark_ms seq attempt left` follows (lua/README.md,
-- Lease). The fence of an earlier state may have left a firing mark: foreign_ms is the end of the earlier mark, or 0.
-- fired returns foreign_ms if the fence of the token has passed, otherwise nil.
local function fired(lease, token)
  local n = #token + 1
  if string.sub(lease, 1, n) ~= token .. ' ' then return nil end
  return tonumber(string.match(lease, '^%d+', n + 1)) or 0
end

-- Reports whether the record got another revision since the fence of the token has passed: then a zero stands before
-- foreign_ms. Bytes are compared, since every fence and most settlements ask.
local function revised(lease, token)
  local n = #token + 2
  return string.byte(lease, n) == 48 and string.byte(lease, n + 1) ~= 32
end
