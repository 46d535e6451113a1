"""Contents of the drawer beside the panes: a collective, a repeated block, a comparison."""
