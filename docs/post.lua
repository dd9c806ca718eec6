-- For wrk: jobs of the mean size.
wrk.method = "POST"
wrk.path = "/v1/jobs"
local token = os.getenv("HERDLESS_TOKEN")
if token then wrk.headers["Authorization"] = "Bearer " .. token end
