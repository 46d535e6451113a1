"""What the C library does with memory that is given back to it."""

from __future__ import annotations

from typing import Final

LARGEST: Final = (32 << 20) - (1 << 16)
"""Of larger blocks the GNU C library learns nothing."""


def keep_freed(size_bytes: int) -> None:
    """Have blocks of up to so many bytes reused, at most `LARGEST`.

    By default each is a mapping of its own: given back to the system when it is freed, and zeroed
    page by page when the next one is taken. The GNU C library raises its threshold to the largest
    block that was ever freed (mallopt(3), M_MMAP_THRESHOLD), so one is taken and freed here, which
    touches none of its pages. Other C libraries do not care.
    """
    bytes(min(size_bytes, LARGEST))
