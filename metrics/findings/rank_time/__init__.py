"""Where the time of every rank goes: each nanosecond once, in kinds that sum to the whole."""
