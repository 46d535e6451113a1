"""Reports of nsys (``.nsys-rep``, ``.qdrep``): only nsys itself reads them, so it exports them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.names import printable
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.store.column_store import EXPORT_NAME, SCRATCH_PREFIX

EXECUTABLE_VARIABLE: Final = "CCLTUI_NSYS"
_POLL_S: Final = 0.1
_MAX_WORDS: Final = 300
_BY_HAND: Final = "`nsys export -t sqlite` where it is, and open the .sqlite file"


def nsys_executable() -> str | None:
    """The nsys to use: what CCLTUI_NSYS names, else the one on PATH; None without either.

    A name that leads nowhere is no nsys either, never another one in its place.
    """
    stated = os.environ.get(EXECUTABLE_VARIABLE)
    return shutil.which(stated or "nsys", path=_absolute_path())


def _absolute_path() -> str | None:
    """PATH without relative entries: they would start a program that lies beside the traces."""
    stated = os.environ.get("PATH")
    if stated is None:
        return None
    return os.pathsep.join(entry for entry in stated.split(os.pathsep) if Path(entry).is_absolute())


def read_report(
    path: Path,
    *,
    shown: str,
    scratch: Sequence[Path] = (),
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Sequence[RankTrace]:
    """Columns of a report, exported by nsys into one of the ``scratch`` directories first.

    The first half of ``progress`` is the export, told from the size of what is written. Raises
    :class:`TraceError` with nsys' own words where it is absent or fails, and CancelledError.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise TraceError(f"cannot be read ({error.strerror})", path=shown) from error
    half = status.st_size // 2

    def exporting(written: int) -> None:
        if progress is not None:
            progress(min(written, half))

    def reading(done: int, total: int) -> None:
        if progress is not None:
            progress(half + (status.st_size - half) * done // max(total, 1))

    with scratch_directory(scratch) as directory:
        export = export_report(
            path, directory / EXPORT_NAME, shown=shown, progress=exporting, cancelled=cancelled
        )
        size = export.stat().st_size
        ranks = read_nsys(
            export,
            shown=shown,
            progress=lambda done: reading(done, size),
            cancelled=cancelled,
            scratch=directory.parent,
            report=path,
        )
    if not ranks.num_events:
        raise TraceError(f"nsys exported no event of it; run {_BY_HAND}", path=shown)
    return ranks


def export_report(
    path: Path,
    target: Path,
    *,
    shown: str,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    """Let nsys export the report ``path`` to the sqlite file ``target``; returns ``target``.

    ``progress`` gets the bytes written so far. Raises :class:`TraceError` with what nsys said,
    and :class:`CancelledError` after nsys was stopped.
    """
    executable = nsys_executable()
    if executable is None:
        raise TraceError(_absent(), path=shown)
    # An absolute path cannot be taken for an option.
    command = [executable, "export", "-t", "sqlite", "-q", "true", "-f", "true"]
    command += ["-o", str(target.absolute()), str(path.resolve())]
    with tempfile.TemporaryFile() as words:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT
            )
        except OSError as error:
            why = f"{executable} cannot be started ({error.strerror}); run {_BY_HAND}"
            raise TraceError(why, path=shown) from error
        status = _watched(process, target, shown, progress, cancelled)
        words.seek(0)
        said = " ".join(words.read(1 << 16).decode("utf-8", "replace").split())
    if status != 0 or not target.is_file():
        raise TraceError(_failed(status, said), path=shown)
    return target


def _watched(
    process: subprocess.Popen[bytes],
    target: Path,
    shown: str,
    progress: Callable[[int], None] | None,
    cancelled: Callable[[], bool] | None,
) -> int:
    """Exit status of nsys; it is ended when the user stops the work, or when we are ended."""
    try:
        while (status := process.poll()) is None:
            if cancelled is not None and cancelled():
                raise CancelledError("reading was stopped", path=shown)
            if progress is not None:
                with contextlib.suppress(OSError):
                    progress(target.stat().st_size)
            time.sleep(_POLL_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return status


def _absent() -> str:
    stated = os.environ.get(EXECUTABLE_VARIABLE)
    if stated:
        return (
            f"a report that only nsys reads, and {printable(stated)} is no program; run {_BY_HAND}"
        )
    return (
        f"a report that only nsys reads, and there is none on PATH: give one with --nsys, or run "
        f"{_BY_HAND}"
    )


def _failed(status: int, said: str) -> str:
    words = printable(said[:_MAX_WORDS]) if said else "nothing"
    return (
        f"nsys could not export it (exit status {status}) and said: {words}; a report needs an "
        "nsys at least as new as the one that recorded it"
    )


@contextlib.contextmanager
def scratch_directory(wanted: Sequence[Path]) -> Iterator[Path]:
    """A folder in the first of the ``wanted`` directories that takes one, else a temporary one."""
    for directory in wanted:
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            made = tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=directory)
            break
    else:
        made = tempfile.TemporaryDirectory(prefix="ccltui-nsys-")
    with made as name:
        yield Path(name)
