"""Score verdicts, culprits, causes and saved time on jobs with planted faults."""
