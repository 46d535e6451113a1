"""Profiler traces of all ranks of a training job: commands, explorer, and a Python interface.

``ccltui.open(DIR)`` opens traces from a program; docs/python.md describes what it returns.
"""

# Nothing is imported here: python -m ccltui runs this before it leaves the working directory out of
# the search path.

__version__ = "0.2.0"

_PUBLIC = ("Frame", "Job", "Rank", "Result", "open")


def __getattr__(name: str) -> object:
    """Import the Python interface when it is first used: commands start without numpy."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    api = __import__("ccltui.api", fromlist=_PUBLIC)
    return getattr(api, name)
