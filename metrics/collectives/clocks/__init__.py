"""Estimate the clock offset of each rank from matched collectives."""
