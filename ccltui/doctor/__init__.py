"""Checks of `ccltui doctor`: traces, side files and workload cards."""
