"""Execution traces of PyTorch: operators with shapes, dependencies and process groups, no times."""
