"""What events mean: calls, groups, dimensions, steps, kernel classes, hardware peaks."""
