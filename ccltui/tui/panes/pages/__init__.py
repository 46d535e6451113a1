"""Bases of panes of files beside the traces: lists of rows, and pages of text with tables."""
