"""Decode JSON text of traces: tokens, buffers, typed events, exact times."""
