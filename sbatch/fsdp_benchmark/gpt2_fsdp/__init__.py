"""A GPT-2-style model, its data, and its training under fully sharded data parallelism."""
