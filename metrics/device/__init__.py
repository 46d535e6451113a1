"""How device time divides: busy and idle time, gaps, steps, the critical path."""
