"""Read SQLite exports of Nsight Systems: pages, queries, table rows, schema."""
