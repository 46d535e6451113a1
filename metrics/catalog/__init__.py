"""The built-in metrics, one file each."""
