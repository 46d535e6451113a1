"""Rows of nsys reports: their columns, filters, groups, and what launches and ranges enclose."""
