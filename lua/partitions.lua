-- Runs a script for several partitions of one shard in one call, for a Redis that is no Cluster. KEYS: the keys of each
-- partition, one partition after another. ARGV: the number of keys of a partition, then for each partition the number of
-- arguments, and the arguments. Returns for each partition the script's answer, or the text of the script's error: an error
-- hurts no other partition. go-redis can't read an error within a list.
-- <shared>
local function part(KEYS, ARGV)
-- <each>
end

local width, replies, at = tonumber(ARGV[1]), {}, 2
for k = 1, #KEYS, width do
  local last = at + tonumber(ARGV[at])
  local ok, reply = pcall(part, { unpack(KEYS, k, k + width - 1) }, { unpack(ARGV, at + 1, last) })
  if not ok then reply = type(reply) == 'table' and reply.err or tostring(reply) end
  replies[#replies + 1], at = reply, last + 1
end
return replies
