"""Files that many tests read, written once for all workers of a run."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

MakeOnce = Callable[[str, Callable[[Path], object]], Path]
"""What the fixture ``once`` gives: from a name and a function that fills a folder to the folder."""


def make_once(place: Path, name: str, fill: Callable[[Path], object]) -> Path:
    """Return the folder of that name, filled by the first worker that needs it.

    The others wait, which leaves the CPU to the first.
    """
    folder, filled = place / name, place / f"{name}.filled"
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not filled.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
            folder.mkdir()
            fill(folder)
            filled.touch()
    return folder
