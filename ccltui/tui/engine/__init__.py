"""Computation for the explorer in threads and processes, and the messages between them."""
