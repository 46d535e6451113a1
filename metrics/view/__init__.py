"""A job under a choice of time, steps, ranks and group, with its facts and data quality."""
