"""Compare the workload card with the traces, and draft a card."""
