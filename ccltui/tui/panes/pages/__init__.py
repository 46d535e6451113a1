"""Tables in pages of text, and the board of ranks."""
