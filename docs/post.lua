-- For wrk: jobs of the mean size.
wrk.method = "POST"
wrk.path = "/v1/jobs"
