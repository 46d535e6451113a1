"""The commands: each states its arguments, asks the core, and says how it ended."""
