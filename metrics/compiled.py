"""Whether what goes through arrays one thing after the other is compiled.

It is built by the install where a compiler is. ``CCLTUI_ACCEL=0`` turns it off too.
"""

from __future__ import annotations

from functools import cache

from parsers.kineto.accelerator import wanted


def available() -> bool:
    """Whether all of it was built, and is wanted."""
    return wanted() and _built()


@cache
def _built() -> bool:
    try:
        import metrics._intervals  # noqa: PLC0415
        import metrics.collectives._passes  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True
