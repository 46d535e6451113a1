"""``ccltui diff``: two jobs, captures, runs, ranks, steps or windows."""
