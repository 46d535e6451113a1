"""A GPT-2-style model and its data, for the programs that train it in different ways."""
