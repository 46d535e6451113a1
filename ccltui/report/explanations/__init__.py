"""Formats of an explanation, and the options that select the same part of a job."""
