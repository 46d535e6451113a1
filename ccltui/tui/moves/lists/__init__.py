"""Moves that every list has."""
