"""Numbers about machines, from benchmarks and from what NCCL and drivers wrote down."""
