"""Commands: each defines its arguments, calls the core, and returns an exit status."""
