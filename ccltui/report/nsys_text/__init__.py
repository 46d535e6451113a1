"""Print reports in the formats of nsys stats, and tables of its recipes."""
