-- Sends an event to one instance after another, each request with a key of its own.
local number, instances, run = 0, 1, "0"
local headers = {["Content-Type"] = "application/json"}

function init(arguments)
  headers["Authorization"] = "Bearer " .. arguments[1]
  instances, run = tonumber(arguments[2]), arguments[3]
end

function request()
  number = number + 1
  headers["Idempotency-Key"] = run .. "-" .. number
  return wrk.format("POST", "/v1/instances/i" .. number % instances .. "/events", headers, '{"event":"flip"}')
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('\n{"requests": %d, "microseconds": %d, "failed": %d, "p50": %d, "p99": %d}\n',
    summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99)))
end
