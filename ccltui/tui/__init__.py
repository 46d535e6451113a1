"""The explorer in the terminal; `start` opens it."""
