"""Model of a job: calls, groups, dimensions, steps, kernel classes, peak rates of hardware."""
