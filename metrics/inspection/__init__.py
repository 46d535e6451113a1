"""Describe single events: what is recorded of one, and the events that it belongs together with."""
