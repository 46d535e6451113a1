"""Build the columns and tables of a rank from decoded events."""
