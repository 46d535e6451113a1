"""Whose fault a slow step is: passes, dependencies, replays with other durations, and a verdict."""
