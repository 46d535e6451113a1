"""Metrics of communication: calls, volume, bandwidth, overlap, locality."""
