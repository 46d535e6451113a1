"""What each pane draws: from a scene to cells."""
