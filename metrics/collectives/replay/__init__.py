"""Replay a job from its dependencies, and ask what a step would take without a straggler."""
