"""Detect the compiled extensions ``_intervals``, ``_passes`` and ``_near_ends``.

They are built at installation where a C compiler is available. ``CCLTUI_ACCEL=0`` disables them.
"""

from __future__ import annotations

from functools import cache

from ccltui.parsers.machine_limits import wants_compiled_code


@cache
def available() -> bool:
    """Return whether the first two were built and were enabled at the first call.

    Cached, because a command calls this for thousands of sets of intervals.
    """
    if not wants_compiled_code():
        return False
    try:
        import ccltui.metrics.arrays._intervals  # noqa: PLC0415
        import ccltui.metrics.arrays._passes  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


@cache
def has_near_ends() -> bool:
    """Return whether ``_near_ends`` was built too, which only traces without groups need."""
    if not available():
        return False
    try:
        import ccltui.metrics.arrays._near_ends  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True
