"""Lines and widgets around the panes: header, status, help, loading, theme."""
