"""Find the cause of a late arrival from the activity of the late rank and its peers."""
