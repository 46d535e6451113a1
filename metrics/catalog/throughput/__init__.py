"""Metrics of throughput: tokens, FLOPs utilization, comparisons of speed."""
