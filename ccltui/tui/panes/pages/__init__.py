"""Bases of panes of files beside the traces, pages of text with tables, and the board of ranks."""
