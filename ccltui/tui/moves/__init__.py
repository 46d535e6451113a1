"""Functions from a scene to the next view state: cursor, rows, charts, time."""
