"""Set how the C library reuses freed memory."""

from __future__ import annotations

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
