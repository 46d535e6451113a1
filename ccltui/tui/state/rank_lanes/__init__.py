"""Rows of the Timeline below the one of a rank: streams, idle time, threads of the host."""
