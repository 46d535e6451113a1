"""Set how the C library reuses freed memory, and return what is free to the system."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

LARGEST: Final = (32 << 20) - (1 << 16)
"""Largest block whose release changes the threshold of the GNU C library."""


def keep_freed(size_bytes: int) -> None:
    """Have blocks of up to so many bytes reused, at most `LARGEST`.

    By default each is a mapping of its own: given back to the system when it is freed, and zeroed
    page by page when the next one is taken. The GNU C library raises its threshold to the largest
    block that was ever freed (mallopt(3), M_MMAP_THRESHOLD), so one is taken and freed here, which
    touches none of its pages. Other C libraries are not affected.
    """
    bytes(min(size_bytes, LARGEST))


def trim_heap() -> None:
    """Return freed memory to the system; without effect where the C library cannot, as musl."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return ``malloc_trim`` of the C library in use, None where there is none."""
    import ctypes  # noqa: PLC0415  (milliseconds that most commands save)

    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
