"""Export nsys reports (``.nsys-rep``, ``.qdrep``) with nsys, the only program that reads them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
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
from ccltui.parsers.store.store_entry import EXPORT_NAME, SCRATCH_PREFIX
from ccltui.parsers.system.scratch_folder import scratch_folder

EXECUTABLE_VARIABLE: Final = "CCLTUI_NSYS"
_POLL_S: Final = 0.1
_MAX_OUTPUT_CHARS: Final = 300
_MANUAL_EXPORT: Final = "`nsys export -t sqlite` where it is, and open the .sqlite file"

_ENDING_WITH_PARENT: Final = (
    'exec 3<&0; ( ( read line <&3; kill -9 0 ) >/dev/null 2>&1 & ); exec "$@" 3<&- </dev/null'
)
"""Shell script that becomes the command, and kills its group when standard input is closed.

That happens when this process ends, however it ends: an export may write gigabytes for minutes.
"""


def nsys_executable() -> str | None:
    """Return the path of nsys: that of CCLTUI_NSYS, else of PATH; None without either.

    Where CCLTUI_NSYS names no program, PATH is not searched.
    """
    stated = os.environ.get(EXECUTABLE_VARIABLE)
    return shutil.which(stated or "nsys", path=_absolute_path())


def _absolute_path() -> str | None:
    """Return PATH without relative entries, which could start a program beside the traces."""
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
    """Export a report with nsys and read its columns.

    Args:
        path: The report.
        shown: Its path in messages.
        scratch: Directories for the export; the first usable one is taken, else a temporary one.
        progress: Called with bytes done. The first half is the export, estimated from the size
            of its output.
        cancelled: Polled; reading stops when it returns True.

    Raises:
        TraceError: nsys is absent or failed; the message has the output of nsys.
        CancelledError: ``cancelled`` returned True.
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
        raise TraceError(f"nsys exported no event of it; run {_MANUAL_EXPORT}", path=shown)
    return ranks


def export_report(
    path: Path,
    target: Path,
    *,
    shown: str,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    """Export the report ``path`` with nsys to the SQLite file ``target``; return ``target``.

    ``progress`` is called with the bytes written so far.

    Raises:
        TraceError: nsys is absent or failed; the message has the output of nsys.
        CancelledError: ``cancelled`` returned True; nsys was stopped.
    """
    executable = nsys_executable()
    if executable is None:
        raise TraceError(_no_nsys_message(), path=shown)
    # Absolute paths, since nsys could parse a relative one as an option.
    command = [executable, "export", "-t", "sqlite", "-q", "true", "-f", "true"]
    command += ["-o", str(target.absolute()), str(path.resolve())]
    with tempfile.TemporaryFile() as output_file:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _ENDING_WITH_PARENT, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            why = f"{executable} cannot be started ({error.strerror}); run {_MANUAL_EXPORT}"
            raise TraceError(why, path=shown) from error
        status = _wait_for_exit(process, target, shown, progress, cancelled)
        output_file.seek(0)
        output = " ".join(output_file.read(1 << 16).decode("utf-8", "replace").split())
    if status != 0 or not target.is_file():
        raise TraceError(_failure_message(status, output), path=shown)
    return target


def _wait_for_exit(
    process: subprocess.Popen[bytes],
    target: Path,
    shown: str,
    progress: Callable[[int], None] | None,
    cancelled: Callable[[], bool] | None,
) -> int:
    """Wait for nsys and return its exit status; kill it on cancellation and on any exception."""
    try:
        while (status := process.poll()) is None:
            if cancelled is not None and cancelled():
                raise CancelledError("reading was stopped", path=shown)
            if progress is not None:
                with contextlib.suppress(OSError):
                    progress(target.stat().st_size)
            time.sleep(_POLL_S)
    finally:
        _end(process)
    return status


def _end(process: subprocess.Popen[bytes]) -> None:
    """End nsys and all that it started, also what still runs after it has ended itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        process.stdin.close()  # ends the process that watches it


def _no_nsys_message() -> str:
    stated = os.environ.get(EXECUTABLE_VARIABLE)
    if stated:
        return (
            f"a report that only nsys reads, and {printable(stated)} is no program; "
            f"run {_MANUAL_EXPORT}"
        )
    return (
        f"a report that only nsys reads, and there is none on PATH: give one with --nsys, or run "
        f"{_MANUAL_EXPORT}"
    )


def _failure_message(status: int, output: str) -> str:
    shown_output = printable(output[:_MAX_OUTPUT_CHARS]) if output else "nothing"
    return (
        f"nsys could not export it (exit status {status}) and said: {shown_output}; a report needs "
        "an nsys at least as new as the one that recorded it"
    )


@contextlib.contextmanager
def scratch_directory(wanted: Sequence[Path]) -> Iterator[Path]:
    """Create a folder in the first writable one of the ``wanted`` directories, else in TMPDIR."""
    with contextlib.ExitStack() as stack:
        for directory in wanted:
            with contextlib.suppress(OSError):
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                made = stack.enter_context(scratch_folder(SCRATCH_PREFIX, directory))
                break
        else:
            made = stack.enter_context(scratch_folder())
        yield made
