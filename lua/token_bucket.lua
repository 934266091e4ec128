#!lua flags=allow-oom
-- One atomic step on one token bucket: refill by Redis's own clock, then grant what is there.
--
-- KEYS[1]  the bucket: a hash with `tokens` (decimal, below zero after a debt) and `ts` (ms)
-- ARGV[1]  capacity           tokens in a full bucket, above 0
-- ARGV[2]  refill per second  tokens, above 0
-- ARGV[3]  cost               tokens that one request takes, a whole number, at least 1
-- ARGV[4]  count              requests that wait for this answer
-- ARGV[5]  extra              tokens wanted beyond theirs
-- ARGV[6]  divisor            of what the requests leave, at most 1/divisor goes out as extra
-- ARGV[7]  debt               tokens spent without Redis knowing; they alone may take the bucket
--                             below zero, down to -capacity
-- ARGV[8]  seed               the level to begin with where the key does not exist; -1: full
-- Reply    { granted tokens (whole multiples of cost), what is left in thousandths of a token,
--            ms until one more cost is there (0: now) }, all integers
--
-- A take that grants nothing writes nothing, so that rejected requests neither move the clock
-- nor round the level; but for a debt, and for a stored time that lies in the future, which
-- would otherwise stop the refill, or a level that lies below what a debt may do, which would
-- never come back. The caller vouches for the numbers: they are not checked here.

local capacity = tonumber(ARGV[1])
local refill = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])
local count = tonumber(ARGV[4])
local extra = tonumber(ARGV[5])
local divisor = tonumber(ARGV[6])
local debt = tonumber(ARGV[7])
local seed = tonumber(ARGV[8])

-- A sum of refills is rounded: what lacks less than this of a token counts as that token. It
-- stays on the bucket's account, so it never adds up. src/limit/bucket.rs does the same.
local EPSILON = 1e-9
local MAX_MS = 1e13

-- Computed before anything is written, for a script does not roll back: twice the time to fill.
local ttl = string.format('%.0f', math.max(1000, math.min(MAX_MS, math.ceil(2000 * capacity / refill))))

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local stored = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local tokens = tonumber(stored[1])
local ts = tonumber(stored[2])
local mend = false
if not tokens or not ts or tokens ~= tokens or ts ~= ts then
  tokens = capacity
  if seed >= 0 then
    tokens = seed
  end
else
  if tokens < -capacity then
    tokens = -capacity
    mend = true
  end
  if ts > now then
    mend = true
  elseif not mend then
    tokens = tokens + (now - ts) * refill / 1000
  end
end
tokens = math.min(capacity, tokens)
if debt > 0 then
  tokens = math.max(-capacity, tokens - debt)
end

local granted = math.max(0, math.min(count, math.floor((tokens + EPSILON) / cost))) * cost
local more = math.min(extra, (tokens - granted + EPSILON) / divisor)
granted = granted + math.max(0, math.floor(more / cost)) * cost
tokens = tokens - granted

if granted > 0 or debt > 0 or mend then
  redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'ts', string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[1], ttl)
end

local wait = 0
if tokens + EPSILON < cost then
  wait = math.max(1, math.min(MAX_MS, math.ceil((cost - tokens - EPSILON / 2) * 1000 / refill)))
end
return { granted, math.floor((math.max(0, tokens) + EPSILON) * 1000), wait }
