"""Metrics that are functions of a trace directory: ``metric_cal(directory, profile_mode)``."""
