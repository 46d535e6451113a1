"""Match collectives across ranks, estimate clocks, and find stragglers and their causes."""
