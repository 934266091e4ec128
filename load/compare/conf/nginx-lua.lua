-- The limit of nginx-lua.conf: one call of token_bucket.lua for each request.

local redis = require("nginx.redis")

local SCRIPT = [====[@script@]====]
local CAPACITY, REFILL = "@capacity@", "@refill@"

local limit = {}
local digest

local function digest_of(text)
  local bytes = ngx.sha1_bin(text)
  return (bytes:gsub(".", function(byte) return string.format("%02x", byte:byte()) end))
end

-- What Redis says, or nil and why it says nothing.
local function ask(key)
  local client = redis:new()
  client:set_timeout(@timeout_ms@)
  local ok, failure = client:connect("@redis_host@", @redis_port@)
  if not ok then
    return nil, failure
  end
  local reply
  reply, failure = client:evalsha(digest, 1, key, CAPACITY, REFILL, "1", "1", "0", "1", "0", "-1")
  if not reply and failure and failure:find("NOSCRIPT", 1, true) then
    reply, failure = client:eval(SCRIPT, 1, key, CAPACITY, REFILL, "1", "1", "0", "1", "0", "-1")
  end
  if reply then
    client:set_keepalive(60000, 128)
  end
  return reply, failure
end

function limit.access()
  digest = digest or digest_of(SCRIPT)
  local tenant = ngx.var.http_x_api_key
  if not tenant then
    return ngx.exit(401)
  end
  local reply = ask("rl:{" .. tenant .. "}:all")
  if not reply then
    if @open@ then
      return
    end
    return ngx.exit(503)
  end
  ngx.header["X-RateLimit-Remaining"] = math.floor(reply[2] / 1000)
  if reply[1] == 0 then
    ngx.header["Retry-After"] = math.max(1, math.ceil(reply[3] / 1000))
    return ngx.exit(429)
  end
end

return limit
