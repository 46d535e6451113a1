"""The other side of ingest: what runs in a worker process.

Also the module that a worker starts with, so it imports nothing of the caller's.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsers.errors import TraceError
from parsers.found import Kind
from parsers.readers import read_file, version_of
from parsers.store import Store

_REPORT_S = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a worker sends back: small, because the columns travel through the store."""

    directory: Path = Path()
    key: str = ""
    seconds: float = 0.0
    error: str | None = None


class _Worker:
    """State of a worker process, set once by its initializer."""

    reports: Any = None
    stop: Any = None
    directories: tuple[Path, ...] = ()


def start_worker(reports: Any, stop: Any, directories: tuple[Path, ...]) -> None:
    """Prepare this process: where to report, when to stop, which stores to try in turn."""
    _Worker.reports, _Worker.stop, _Worker.directories = reports, stop, directories
    # ctrl+c reaches the whole process group; the caller decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(5)  # a login node is shared
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker must not outlive a killed explorer."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def read_one(real_path: str, shown: str, kind: Kind) -> Outcome:
    """Read one file and store its columns; the task of a worker."""
    started = time.perf_counter()
    last = 0.0

    def progress(bytes_read: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _REPORT_S:
            last = now
            _Worker.reports.put((shown, bytes_read))

    path = Path(real_path)
    try:
        key = Store(_Worker.directories[0]).key(path, version_of(kind))
        traces = read_file(
            path,
            kind,
            shown=shown,
            scratch=_Worker.directories,
            progress=progress,
            cancelled=_Worker.stop.is_set,
        )
    except TraceError as error:
        return Outcome(error=str(error))
    except OSError as error:
        return Outcome(error=f"{shown}: cannot be read ({error.strerror})")
    for directory in _Worker.directories:
        if Store(directory).save_parts(key, traces):
            return Outcome(directory, key, time.perf_counter() - started)
    return Outcome(error=f"{shown}: no space for its columns in {_Worker.directories[0]}")
