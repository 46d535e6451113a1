"""Findings: what costs time in a recording, where, how much, how sure, and what to do about it."""
