"""Replay a job with other durations: whose slowness it is, and what mending it saves."""
