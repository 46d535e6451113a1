"""Compiled scanner of Kineto traces, its loader, and the text ids shared with the decoder."""
