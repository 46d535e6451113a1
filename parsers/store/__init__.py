"""Keep columns on disk and map them: the store, the layout of a file, and packing."""
