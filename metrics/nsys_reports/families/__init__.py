"""Reports by family of tables: each report is a declaration that names its tables and columns."""
