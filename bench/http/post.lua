-- What wrk runs: wrk -s post.lua URL [-- BODY...]
--
-- Posts the files BODY in turn as JSON; without any it is wrk's own GET. At the end it prints one line, `RESULT` and JSON: the
-- counts, and every latency in microseconds with how often it occurred.

local requests, last = {}, 0

function init(args)
    for i = 1, #args do
        local file = assert(io.open(args[i], "rb"))
        requests[i] = wrk.format("POST", nil, {["Content-Type"] = "application/json"}, file:read("*a"))
        file:close()
    end
    if #requests > 0 then
        -- Defined only here: wrk calls `request` for every request where there is one.
        function request()
            last = last % #requests + 1
            return requests[last]
        end
    end
end

function done(summary, latency)
    local errors, histogram = {}, {}
    for name, count in pairs(summary.errors) do
        errors[#errors + 1] = string.format('"%s":%d', name, count)
    end
    for i = 1, #latency do
        local value, count = latency(i)
        histogram[i] = string.format("[%d,%d]", value, count)
    end
    io.write(string.format('RESULT {"requests":%d,"microseconds":%d,"errors":{%s},"histogram":[%s]}\n', summary.requests,
        summary.duration, table.concat(errors, ","), table.concat(histogram, ",")))
end
