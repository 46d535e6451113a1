"""Functions from a scene to its next state: cursor, rows, charts, time."""
