"""Write reports to standard output or atomically to a file, and messages to standard error.

Both outputs receive the same bytes, so that ``-o FILE`` equals ``> FILE``.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import safe_text
from ccltui.report.session_log import LOG


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
