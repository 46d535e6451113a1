"""Metrics of stragglers: lag, causes, blame, clocks, mismatches."""
