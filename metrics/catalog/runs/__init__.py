"""Metrics of training runs, from files that the runs wrote."""
