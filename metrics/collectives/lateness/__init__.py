"""Compute arrival, lag, wait and blame of each rank at each collective."""
