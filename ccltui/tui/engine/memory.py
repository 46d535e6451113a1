"""Return memory that the process no longer needs to the kernel.

Columns are mapped from the store, and arrays of the server process from its file: their pages
come back from the page cache at the next access, so none needs to stay. Freed arrays below the C
library's threshold stay in its heap until ``malloc_trim`` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.parsers.store.column_store import release
from ccltui.parsers.system.machine_limits import trim_heap
from ccltui.tui.engine import array_transfer

if TYPE_CHECKING:
    from ccltui.parsers.job import Job


def release_memory(job: Job, *, heap: bool) -> None:
    """Release the pages of mapped columns and arrays, and with ``heap`` what was freed."""
    for trace in job.ranks:
        release(trace)
    array_transfer.release_pages()
    if heap:
        trim_heap()
