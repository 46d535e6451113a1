"""Files of training runs: configuration, epochs, steps, logs, and how a run ended."""
