"""Properties of the workload: parts of calls, pipeline stages, experts, hardware, requests."""
