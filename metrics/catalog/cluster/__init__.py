"""Metrics of machines, from cluster benchmarks and logs of NCCL."""
