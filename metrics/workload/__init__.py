"""What a view of a job contains: call parts, pipeline stages, hardware, request latencies."""
