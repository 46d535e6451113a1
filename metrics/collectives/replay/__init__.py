"""Replay a job from its dependencies, with the excess time of stragglers removed."""
