"""Keys, mouse, prompts, recordings: from user input to actions."""
