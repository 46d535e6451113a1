"""Attribute slow steps to ranks, stages, links or hosts by replays with other durations."""
