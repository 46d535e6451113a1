"""Division of device time: busy and idle time, gaps, parts of steps, critical path."""
