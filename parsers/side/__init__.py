"""Read result files beside the traces: serving benchmarks and expert loads."""
