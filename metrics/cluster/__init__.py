"""Check and list figures of machines, from benchmarks, NCCL logs and driver reports."""
