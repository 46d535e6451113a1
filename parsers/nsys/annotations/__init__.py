"""Read the annotations of a capture: session, names, NVTX ranges, NCCL calls."""
