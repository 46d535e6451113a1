"""Memory that the process no longer needs, back to the kernel.

Columns are mapped from the store, and what another process computed from its file: their pages
come back from the page cache when they are asked for, so none needs to stay. Freed arrays below
the C library's threshold stay in its heap until it is told.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from ccltui.parsers.store.column_store import release
from ccltui.tui.engine import array_transfer

if TYPE_CHECKING:
    from ccltui.parsers.job import Job


def give_back(job: Job, *, heap: bool) -> None:
    """Give back the pages of mapped columns, and with ``heap`` what was freed."""
    for trace in job.ranks:
        release(trace)
    array_transfer.let_go()
    trim = _trim() if heap else None
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """``malloc_trim`` of the C library in use; None where there is none, as with musl."""
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
