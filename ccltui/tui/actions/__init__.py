"""Registry of actions, and the actions that export or copy."""
