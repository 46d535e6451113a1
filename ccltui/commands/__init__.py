"""Commands: each states its arguments, calls the core, and returns an exit status."""
