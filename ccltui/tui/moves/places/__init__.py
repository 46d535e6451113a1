"""Communicators, ranks, steps and kernels with figures, as places to go to."""
