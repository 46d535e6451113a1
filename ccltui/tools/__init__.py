"""Generators of the reference pages in docs/."""
