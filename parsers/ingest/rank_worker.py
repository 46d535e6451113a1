"""Functions that run in a worker process.

This is also the main module of a worker, so it imports nothing of the caller. The readers are
imported in the worker only: its caller needs none of them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.parsers.errors import raise_lost_signals

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ccltui.parsers.format import Companion

_REPORT_S = 0.05
REPORT: Final = struct.Struct("=qq")
"""Number of a file and bytes read of it: what a worker writes into the pipe of reports."""


class Outcome(Struct, frozen=True):
    """Result of a worker: small, because the columns are in the store.

    ``is_lost`` as of :class:`ccltui.parsers.ingest.load.Failed`.
    """

    directory: Path = Path()
    key: str = ""
    seconds: float = 0.0
    error: str | None = None
    is_lost: bool = False
    defect: str = ""  # traceback, where the reader failed and not the file


def _never() -> bool:
    return False


class _Worker:
    """State of a worker process, set once by its initializer; no reports where nobody listens."""

    reports: Connection | None = None
    is_stopped: Callable[[], bool] = _never
    in_task: bool = False


def start_worker(reports: Connection | None, stop: Connection) -> None:
    """Prepare this process: set the pipe of reports, and the one that is closed to stop it."""
    _Worker.reports, _Worker.is_stopped = reports, stop.poll
    ignore_sigint()
    with contextlib.suppress(OSError):
        os.nice(5)  # a login node is shared
    threading.Thread(target=end_with_parent, daemon=True).start()
    raise_lost_signals()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)


def stop_with(stop: threading.Event) -> None:
    """Let ``stop`` end what this process reads, where no parent does."""
    _Worker.is_stopped = stop.is_set


def ignore_sigint() -> None:
    """Ignore SIGINT, which reaches the whole process group: the parent process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by `pool.starting`


class _EndedError(SystemExit):
    """This process was asked to end: what it has begun to write goes first."""


def _end(number: int, _: FrameType | None) -> None:
    """Unwind the task; between tasks exit at once.

    An exception amid an import, which a task causes when it is unpickled, may become another one,
    and its traceback is printed.
    """
    if not _Worker.in_task:
        os._exit(128 + number)
    raise _EndedError(128 + number)


@contextlib.contextmanager
def _exiting_when_ended() -> Iterator[None]:
    """Exit where a task was ended; the pool would take the exception for its result."""
    try:
        _Worker.in_task = True
        yield
    except _EndedError as ended:
        os._exit(int(ended.code or 1))
    finally:
        _Worker.in_task = False


def end_with_parent() -> None:
    """End this process when its parent has ended, also where that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def ready() -> None:
    """Import what reading needs; the first task of a worker that is started ahead."""
    import ccltui.parsers.formats  # noqa: PLC0415
    import ccltui.parsers.kineto.kineto_reader  # noqa: PLC0415
    import ccltui.parsers.store.column_store  # noqa: F401, PLC0415


def read_preview(real_path: str, shown: str, kind: str, directory: Path) -> Outcome:
    """Store the beginning of one file in a temporary directory.

    The outcome has an error where there is nothing to show before all is read.
    """
    with _exiting_when_ended():
        return _previewed(real_path, shown, kind, directory)


def _previewed(real_path: str, shown: str, kind: str, directory: Path) -> Outcome:
    from ccltui.parsers.errors import TraceError, contained  # noqa: PLC0415
    from ccltui.parsers.formats import format_of  # noqa: PLC0415
    from ccltui.parsers.store.column_store import Store  # noqa: PLC0415

    try:
        with contained(shown):
            preview = format_of(kind).preview
            trace = None if preview is None else preview(Path(real_path), shown=shown)
    except TraceError as error:  # reported when the whole file is read
        return Outcome(error=str(error))
    key = uuid.uuid4().hex
    if trace is None or not Store(directory, lasts=False).save(key, trace):
        return Outcome(error="nothing to show yet")
    return Outcome(directory, key)


def read_one(
    real_path: str,
    shown: str,
    kind: str,
    directories: tuple[Path, ...],
    companion: Companion | None = None,
    *,
    number: int = 0,
) -> Outcome:
    """Read one file and store its columns in the first of ``directories`` with room.

    What is read of it so far is reported under ``number``.
    """
    with _exiting_when_ended():
        return _read(real_path, shown, kind, directories, companion, number=number)


def _read(
    real_path: str,
    shown: str,
    kind: str,
    directories: tuple[Path, ...],
    companion: Companion | None,
    *,
    number: int,
) -> Outcome:
    from ccltui.parsers.errors import TraceError, contained, defect_of, is_of_machine  # noqa: PLC0415
    from ccltui.parsers.formats import format_of, read_file  # noqa: PLC0415
    from ccltui.parsers.store.column_store import Store  # noqa: PLC0415

    started = time.perf_counter()
    last = 0.0

    def progress(bytes_read: int) -> None:
        nonlocal last
        now = time.monotonic()
        if _Worker.reports is not None and now - last >= _REPORT_S:
            last = now
            with contextlib.suppress(OSError):  # it is full, or nobody listens any more
                os.write(_Worker.reports.fileno(), REPORT.pack(number, bytes_read))

    path = Path(real_path)
    try:
        with contained(shown):
            other = None if companion is None else Path(companion.real_path)
            key = Store(directories[0]).key(path, format_of(kind).version, other)
            traces = read_file(
                path,
                kind,
                shown=shown,
                companion=companion,
                scratch=directories,
                progress=progress,
                cancelled=_Worker.is_stopped,
            )
    except TraceError as error:
        return Outcome(error=str(error), is_lost=is_of_machine(error), defect=defect_of(error))
    refused = []
    for directory in directories:
        try:
            with contained(shown):
                Store(directory, lasts=directory == directories[0]).write_parts(key, traces)
        except TraceError as error:
            if not isinstance(error.__cause__, OSError):
                return Outcome(error=str(error), is_lost=True, defect=defect_of(error))
            refused.append(f"{directory} ({error.__cause__.strerror or error.__cause__})")
        else:
            return Outcome(directory, key, time.perf_counter() - started)
    why = f"its columns cannot be written to {' or '.join(refused)}"
    return Outcome(error=f"{shown}: {why}", is_lost=True)
