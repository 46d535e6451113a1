"""Profiler traces of all ranks of a training job: commands, explorer, and a Python interface.

``ccltui.open(DIR)`` opens traces from a program; docs/python.md describes what it returns.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = ("Frame", "Job", "Rank", "Result", "open")


def __getattr__(name: str) -> Any:
    """Import the Python interface when it is first used: commands start without numpy."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("ccltui.api"), name)
