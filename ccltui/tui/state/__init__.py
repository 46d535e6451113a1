"""The immutable state of the explorer: scene, view, session, queries and their answers."""
