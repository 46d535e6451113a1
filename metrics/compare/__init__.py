"""Compare runs, benchmarks, steps and ranks."""
