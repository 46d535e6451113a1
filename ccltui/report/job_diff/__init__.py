"""Comparisons of traces as table, markdown, csv and json, and as values for gates."""
