#!lua flags=allow-oom
-- One gateway says that it is alive, and hears how many are: by Redis's own clock, so that the
-- gateways' clocks need not agree.
--
-- KEYS[1]  a sorted set: gateways by the time (ms) of their last heartbeat
-- ARGV[1]  the gateway, a name that no other one has
-- ARGV[2]  ms after which a gateway that was not heard of is gone
-- Reply    how many gateways are alive, this one among them; an integer
--
-- What lies in the future was written before the clock stepped back. It goes, too: whoever is
-- alive writes again soon, while the others would stay until the clock has caught up. The key
-- expires with its last gateway.

local gone_after = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - gone_after))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', gone_after))
return redis.call('ZCARD', KEYS[1])
