-- The load of wrk: one key, or with KEYS=n so many in turn; and one line that a program can read.

local keys = tonumber(os.getenv("KEYS") or "1")

if keys > 1 then
  local requests, turn = {}, 0

  function init()
    for key = 1, keys do
      requests[key] = wrk.format("GET", "/x", { ["X-Api-Key"] = "tenant-" .. key })
    end
  end

  function request()
    turn = turn % keys + 1
    return requests[turn]
  end
else
  -- Without a function `request`, wrk makes it once.
  wrk.path = "/x"
  wrk.headers["X-Api-Key"] = "tenant-1"
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "result requests=%d micros=%d p50=%d p99=%d p999=%d refused=%d broken=%d\n",
    summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
