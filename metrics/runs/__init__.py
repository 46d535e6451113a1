"""Compute figures of training runs from the result files and logs of the runs."""
