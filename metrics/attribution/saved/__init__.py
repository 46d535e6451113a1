"""What a job saves without stragglers, and when that has bounds alone."""
