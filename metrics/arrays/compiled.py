"""Whether what goes through arrays one thing after the other is compiled.

It is built by the install where a compiler is. ``CCLTUI_ACCEL=0`` turns it off too.
"""

from __future__ import annotations

from functools import cache

from ccltui.parsers.system.acceleration import wanted


@cache
def available() -> bool:
    """Whether all of it was built, and was wanted when this was asked first.

    It is asked for every set of intervals: thousands of times in a command.
    """
    if not wanted():
        return False
    try:
        import ccltui.metrics.arrays._intervals  # noqa: PLC0415
        import ccltui.metrics.arrays._passes  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True
