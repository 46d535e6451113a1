"""Queries of panes for what the server process computes, and when each is asked."""
