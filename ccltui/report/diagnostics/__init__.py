"""What a user can attach to a report of a mistake: the log of a run, and reports of crashes."""
