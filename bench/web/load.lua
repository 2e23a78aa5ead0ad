-- What wrk asks and expects: `wrk -s load.lua URL -- METHOD BODY EXPECTED`. Every response is compared; prints one JSON line.
local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

function init(args)
    wrk.method = args[1]
    if args[2] ~= "" then
        wrk.body = args[2]
        wrk.headers["content-type"] = "application/json"
    end
    expected = args[3]
    wrong = 0
end

function response(status, headers, body)
    if status ~= 200 or body ~= expected then
        wrong = wrong + 1
    end
end

function done(summary, latency, requests)
    local bad = 0
    for _, thread in ipairs(threads) do
        bad = bad + thread:get("wrong")
    end
    local e = summary.errors
    io.write(string.format('{"requests":%d,"seconds":%f,"wrong":%d,"errors":%d}\n', summary.requests,
        summary.duration / 1e6, bad, e.connect + e.read + e.write + e.status + e.timeout))
end
