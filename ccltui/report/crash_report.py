"""Report of an internal error in the cache directory, which a user can attach to an issue.

It holds no text of traces: the kind of the error and where in the program it happened, versions,
the names of the options of the command line. Messages of errors and values of options may name
files, hosts or kernels, so they are written with ``--debug`` only.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ccltui import __version__
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.report.output import modules_text

PREFIX: Final = "crash-"
_KEPT: Final = 10
"""Reports that are kept; the oldest are removed."""


def write_crash_report(
    error: BaseException, arguments: Sequence[str], *, with_content: bool
) -> Path | None:
    """Write the report of an error.

    Args:
        error: The exception, with its traceback.
        arguments: The command line without the program.
        with_content: Whether messages and values may be written, which can be text of traces.

    Returns:
        The new file, or None where it cannot be written.
    """
    text = crash_text(error, arguments, with_content=with_content)
    folder = default_cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = folder / f"{PREFIX}{stamp}-{os.getpid()}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return None
    for old in crash_reports(folder)[:-_KEPT]:
        with contextlib.suppress(OSError):
            old.unlink()
    return path


def crash_reports(folder: Path | None = None) -> list[Path]:
    """Return the reports in the cache directory, the oldest first."""
    with contextlib.suppress(OSError):
        found = (folder or default_cache_dir()).glob(f"{PREFIX}*.txt")
        return sorted(path for path in found if path.is_file() and not path.is_symlink())
    return []


def crash_text(error: BaseException, arguments: Sequence[str], *, with_content: bool) -> str:
    """Return the text of a report; the arguments are those of `write_crash_report`."""
    shown = arguments if with_content else [_option_name(word) for word in arguments]
    lines = [
        f"ccltui {__version__}",
        f"python: {platform.python_version()} on {platform.system()} {platform.release()} "
        f"{platform.machine()}",
        f"packages: {modules_text()}",
        f"arguments: {' '.join(shown)}",
        "",
        *_error_lines(error, with_content=with_content),
    ]
    if not with_content:
        lines += ["", "Messages, paths and values are left out; --debug includes them."]
    return "".join(f"{safe_text(line)}\n" for line in lines)


def _option_name(word: str) -> str:
    return word.partition("=")[0] if word.startswith("-") and len(word) > 1 else "…"


def _error_lines(error: BaseException, *, with_content: bool) -> list[str]:
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines.append(f"{type(current).__module__}.{type(current).__qualname__}")
        if with_content:
            lines[-1] += ": " + " ".join(str(current).split())
        frames = traceback.extract_tb(current.__traceback__)
        lines += [f"  {_place(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
        nested = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
        if nested is not None:
            lines.append("caused by:" if current.__cause__ else "while handling:")
        current = nested
    return lines


def _place(filename: str) -> str:
    """Return the path of a module within its package: folders above may be named after users."""
    parts = Path(filename).parts
    for root in ("site-packages", "ccltui"):
        if root in parts:
            at = len(parts) - 1 - parts[::-1].index(root)
            return "/".join(parts[at + (root == "site-packages") :])
    return parts[-1] if parts else filename
