"""Write a job for other tools: Perfetto traces, Parquet and csv tables."""
