"""Metrics of time: steps, busy and idle time, the critical path."""
