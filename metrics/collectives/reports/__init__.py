"""Reports on single collectives and late arrivals."""
