"""Judge the times that a file states for the work of a device."""
