"""States that single panes keep in the view, and the names of the panes."""
