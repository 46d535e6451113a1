"""Load the ranks of a capture in worker processes, through the column store."""
