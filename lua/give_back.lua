#!lua flags=allow-oom
-- Puts tokens back into one token bucket that were granted and not spent.
--
-- KEYS[1]  the bucket, as in token_bucket.lua
-- ARGV[1]  capacity           tokens in a full bucket, above 0
-- ARGV[2]  refill per second  tokens, above 0
-- ARGV[3]  tokens             how many come back, a whole number, at least 1
-- Reply    { tokens that found room, what is there then in thousandths of a token,
--            ms until one token is there (0: now) }, all integers
--
-- Never above the capacity. Where there is no bucket, or none that can be read, nothing is written:
-- what is not there counts as full. src/limit/bucket.rs does the same.

local capacity = tonumber(ARGV[1])
local refill = tonumber(ARGV[2])
local given = tonumber(ARGV[3])

local EPSILON = 1e-9
local MAX_MS = 1e13

-- Computed before anything is written, for a script does not roll back: twice the time to fill.
local ttl = string.format('%.0f', math.max(1000, math.min(MAX_MS, math.ceil(2000 * capacity / refill))))

local stored = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local tokens = tonumber(stored[1])
local ts = tonumber(stored[2])
if not tokens or not ts or tokens ~= tokens or ts ~= ts then
  return { 0, math.floor(capacity * 1000), 0 }
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local before = math.max(-capacity, tokens)
if now > ts then
  before = before + (now - ts) * refill / 1000
end
before = math.min(capacity, before)
tokens = math.min(capacity, before + given)

redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'ts', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ttl)

local wait = 0
if tokens + EPSILON < 1 then
  wait = math.max(1, math.min(MAX_MS, math.ceil((1 - tokens - EPSILON / 2) * 1000 / refill)))
end
return { math.floor(tokens - before + EPSILON), math.floor((math.max(0, tokens) + EPSILON) * 1000), wait }
