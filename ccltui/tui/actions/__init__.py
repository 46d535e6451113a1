"""The registry of actions, and actions that export or copy."""
