"""States of single panes that are stored in the view, and the names of the panes."""
