"""What may cover the panes: help and the prompt."""
