"""A job as lines of passes and calls that can be replayed with other durations."""
