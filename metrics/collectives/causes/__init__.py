"""Find why a rank was late: its activity, its peers, and chains of waits."""
