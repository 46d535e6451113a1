"""Objects that other installed packages add: find them by entry points, load and check them."""
