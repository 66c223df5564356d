-- Prepended to every script: the shard's clock, and the notes of a lease.

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- Lua writes a number of 15 digits and more in exponent form; %d is several times faster than %.0f.
local function int(n) return string.format('%d', n) end

-- A lease is `node:counter:taken_ms`. Once the fence has passed, ` foreign_ms mark_ms seq attempt left` follows (lua/README.md,
-- Lease). The fence of an earlier state may have left a firing mark: foreign_ms is the end of the earlier mark, or 0.
-- fired returns foreign_ms if the fence of the token has passed, otherwise nil. A zero before foreign_ms says that the record
-- got another revision since.
local function fired(lease, token)
  local n = #token + 1
  if string.sub(lease, 1, n) ~= token .. ' ' then return nil end
  return tonumber(string.match(lease, '^%d+', n + 1)) or 0
end

local function revised(lease) return string.find(lease, '^%S+ 0%d') ~= nil end
