"""Read the workload card: its keys, its values, and which card describes a capture."""
