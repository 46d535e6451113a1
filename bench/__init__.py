"""Benchmarks: ratios measured within one run, and figures of the source tree. No tests."""
