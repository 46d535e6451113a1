"""Functions on arrays: intervals, reductions, statistics, regression, compiled passes."""
