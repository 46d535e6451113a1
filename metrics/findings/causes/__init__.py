"""Find why a rank was late, and follow what delayed it to the rank where the waiting began."""
