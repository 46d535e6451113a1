"""Write reports to standard output or atomically to a file, messages to standard error, and a log.

Both outputs receive the same bytes, so that ``-o FILE`` equals ``> FILE``.

The file holds the command line, names of files and the messages of the run. Imports the standard
library only, because a run that fails at its imports is logged too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from ccltui import __version__
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import safe_text

OPTION: Final = "--log"


def target_of(arguments: Sequence[str]) -> str | None:
    """Return the file that ``--log`` names in a command line, None without the option."""
    for at, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == OPTION:
            return value if equals else next(iter(arguments[at + 1 : at + 2]), None)
    return None


class SessionLog:
    """Writes a line for each event, with the time and the seconds since the start."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._started = 0.0

    @property
    def is_open(self) -> bool:
        """Whether lines are written."""
        return self._file is not None

    def open(self, path: str, arguments: Sequence[str]) -> None:
        """Begin a log, at the end of a file that exists. Raises OSError."""
        # It names files: for the user alone, as the cache is.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        import platform  # noqa: PLC0415  (a run without a log starts faster)

        self._file = os.fdopen(
            descriptor, "a", encoding="utf-8", errors="backslashreplace", buffering=1
        )
        self._started = time.monotonic()
        self.add(f"ccltui {__version__}, Python {platform.python_version()}, {platform.platform()}")
        self.add(f"arguments: {' '.join(arguments)}")

    def add(self, text: str) -> None:
        """Write one line; a log that cannot be written ends, and the run goes on."""
        if self._file is None:
            return
        now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        seconds = time.monotonic() - self._started
        try:
            self._file.write(f"{now} {seconds:+9.3f}s [{os.getpid()}] {safe_text(text)}\n")
        except (OSError, ValueError):
            self.close()

    def add_traceback(self, error: BaseException) -> None:
        """Write an exception with its traceback, a line each."""
        if self._file is not None:
            for part in traceback.format_exception(error):
                for line in part.rstrip("\n").split("\n"):
                    self.add(line)

    def close(self) -> None:
        """End the log."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError, ValueError):
                file.close()


LOG: Final = SessionLog()
"""The log of this process."""


def modules_text() -> str:
    """Return the versions of the packages that are imported, in one line."""
    known = ("numpy", "msgspec", "orjson", "textual", "rich", "isal", "zstandard", "yaml")
    found = [
        f"{name} {getattr(sys.modules[name], '__version__', '?')}"
        for name in known
        if name in sys.modules
    ]
    return ", ".join(found) or "none"


def write_report(data: bytes, target: str | None) -> None:
    """Write ``data`` to ``target``; None and ``-`` are standard output. Raises OSError."""
    if target is None or target == "-":
        _write_stdout(data)
    elif _is_special(Path(target)):
        Path(target).write_bytes(data)
    else:
        write_file(data, Path(target))


def write_file(data: bytes, path: Path) -> None:
    """Write a temporary file beside ``path`` and rename it; symbolic links are kept."""
    final = path.resolve()
    temporary = final.with_name(f".{final.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    mode = stat.S_IMODE(final.stat().st_mode) if final.exists() else None
    with temporary.open("xb") as file:
        try:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.flush()
            temporary.replace(final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_new_file(data: bytes, path: Path) -> None:
    """Write a new file, whole or not at all. Raises FileExistsError.

    For names that the program chooses: a link of that name is never followed, whether its target
    exists or not.
    """
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


@contextmanager
def streamed(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that appears under its name when it is whole. Raises FileExistsError.

    For output that is larger than memory; on an error or interrupt nothing is left behind.
    """
    if path.is_symlink() or path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        os.link(temporary, path)  # unlike a rename it does not replace what appeared meanwhile
    finally:
        temporary.unlink(missing_ok=True)


def check_target(target: str | None) -> str | None:
    """Reason why ``target`` cannot be written, None if it can; checked before any work is done."""
    if target is None or target == "-":
        return None
    path = Path(target)
    if path.is_dir():
        return f"{target} is a directory"
    if not path.resolve().parent.is_dir():
        return f"{target}: the folder {path.resolve().parent} does not exist"
    return None


def require_target(target: str | None) -> None:
    """Raise GrammarError where ``target`` cannot be written."""
    problem = check_target(target)
    if problem is not None:
        raise GrammarError(problem)


def print_message(message: str) -> None:
    """Print one line on standard error, control characters made visible."""
    LOG.add(message)
    if sys.stderr is not None:
        print(f"ccltui: {safe_text(message)}", file=sys.stderr, flush=True)


def print_traceback() -> None:
    """Print the traceback of the exception that is being handled on standard error."""
    if sys.stderr is not None:
        lines = traceback.format_exc().removesuffix("\n").split("\n")
        print("\n".join(map(safe_text, lines)), file=sys.stderr, flush=True)


def _write_stdout(data: bytes) -> None:
    if sys.stdout is None:
        raise OSError("standard output is closed; use -o FILE")
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:  # unbuffered (python -u), a write may be partial
        written = sys.stdout.buffer.write(rest)
        if written is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[written:]
    sys.stdout.buffer.flush()


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()
