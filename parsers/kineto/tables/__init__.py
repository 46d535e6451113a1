"""Turn decoded events into the tables of a rank."""
