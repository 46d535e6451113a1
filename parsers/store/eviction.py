"""Remove what a store has above its limit, and what killed writers left."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ccltui.parsers.store import pins
from ccltui.parsers.store.store_entry import (
    COLUMNS_NAME,
    EXPORT_NAME,
    MANIFEST_NAME,
    SCRATCH_PREFIX,
)
from ccltui.parsers.system.scratch_folder import remove_abandoned

_ABANDONED_S: Final = 3600


def trim(directory: Path, limit_bytes: int) -> None:
    """Remove least recently used entries above the limit, and scratch of killed writers.

    What processes of other nodes have mapped stays, and counts.
    """
    with contextlib.suppress(OSError):
        remove_abandoned(directory, SCRATCH_PREFIX)
    used_elsewhere = pins.pinned(directory)
    total = 0
    for used, size, folder in sorted(_entries(directory), reverse=True):
        total += size
        if folder.name.startswith(SCRATCH_PREFIX):
            is_excess = total > limit_bytes or used < time.time() - _ABANDONED_S
        else:
            is_excess = total > limit_bytes and folder.name.partition("-")[0] not in used_elsewhere
        if is_excess:
            shutil.rmtree(folder, ignore_errors=True)


def _entries(directory: Path) -> Iterator[tuple[float, int, Path]]:
    """(time of last use, bytes, folder) of what a store wrote, ignoring all other files.

    The user may have named a directory that holds other things.
    """
    with contextlib.suppress(OSError):
        for folder in list(directory.iterdir()):
            with contextlib.suppress(OSError):
                files = {file.name: file.stat() for file in folder.iterdir()}
                if not files.keys() <= {COLUMNS_NAME, MANIFEST_NAME, EXPORT_NAME}:
                    continue
                if len(files) < 2 and not folder.name.startswith(SCRATCH_PREFIX):
                    continue
                begun = folder.stat().st_mtime  # all there is of a writer that has just started
                used = max((s.st_mtime for s in files.values()), default=begun)
                yield used, sum(s.st_size for s in files.values()), folder
