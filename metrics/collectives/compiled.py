"""Whether the passes that take one thing after the other are compiled; in Python they are slow.

They are built by the install where a compiler is. ``CCLTUI_ACCEL=0`` turns them off too.
"""

from __future__ import annotations

from functools import cache

from parsers.kineto.accelerator import wanted


def available() -> bool:
    """Whether they were built, and are wanted."""
    return wanted() and _built()


@cache
def _built() -> bool:
    try:
        import metrics.collectives._passes  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True
