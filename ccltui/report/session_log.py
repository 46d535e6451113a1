"""Log of one run, for ``--log FILE``: what was started, read, reported and how it ended.

The file holds the command line, names of files and the messages of the run. Imports the standard
library only, because a run that fails at its imports is logged too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Final, TextIO

from ccltui import __version__
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
