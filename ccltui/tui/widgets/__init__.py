"""Widgets: each shows lines or planes that pure functions made, and computes nothing."""
