"""Read what a capture says of itself: session, names, NVTX ranges, NCCL calls."""
