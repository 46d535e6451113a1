"""Metrics of machines, from benchmarks and logs of NCCL."""
