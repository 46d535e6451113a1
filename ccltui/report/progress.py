"""Show progress of loading and of computing: one line on standard error if it is a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TextIO

from ccltui.parsers.numbers import counted, decimal_size, duration

_PERIOD_S = 0.25
_SETTLED_S = 1.0  # before that a speed is not meaningful
_ERASE_LINE = "\r\x1b[K"
_STOPS = "ctrl+c stops here"  # short: with a speed the line has to fit into 80 columns


class Meter(Protocol):
    """Receiver of loading progress."""

    def update(self, path: str, done_bytes: int) -> None:
        """``done_bytes`` of the file ``path`` have been read."""

    def finish(self, path: str) -> None:
        """The file ``path`` is loaded, or has failed."""

    def close(self) -> None:
        """End of loading: remove the output from the terminal."""


class Silent:
    """Meter without output, where standard error is not a terminal."""

    def update(self, path: str, done_bytes: int) -> None:
        """Do nothing."""

    def finish(self, path: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class ComputingLine:
    """``computing straggler_lag  12/88 metrics``: what is computed now, until the next is.

    A metric of a thousand ranks takes a minute, so each is shown when it begins.

    Args:
        stream: Standard error; None or no terminal: nothing is written.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None

    def show(self, what: str, done: int, total: int) -> None:
        """``what`` is computed next, ``done`` of ``total`` metrics are there."""
        if self._stream is not None:
            count = (f"{done}/{counted(total, 'metric')}",) if total > 1 else ()
            _write_line(self._stream, (f"computing {what}", *count))

    def close(self) -> None:
        """Erase the line."""
        if self._stream is not None:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()


class ProgressLine:
    """``loading 29/64 ranks  18.2 GB/41 GB  1.1 GB/s  21 s left``.

    Redrawn at most 4 times a second. ``sizes`` gives the bytes of every file that will be loaded.
    """

    def __init__(
        self,
        stream: TextIO,
        sizes: Mapping[str, int],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._sizes = sizes
        self._clock = clock
        self._started = self._drawn = clock()
        self._done: dict[str, int] = {}
        self._finished: set[str] = set()

    def update(self, path: str, done_bytes: int) -> None:
        """``done_bytes`` of the file ``path`` have been read."""
        self._done[path] = done_bytes
        self._draw()

    def finish(self, path: str) -> None:
        """The file ``path`` is loaded, or has failed."""
        self._done[path] = self._sizes.get(path, 0)
        self._finished.add(path)
        self._draw()

    def close(self) -> None:
        """Erase the line."""
        self._stream.write(_ERASE_LINE)
        self._stream.flush()

    @property
    def parts(self) -> tuple[str, ...]:
        """Current parts of the line, the most important first."""
        done, total = sum(self._done.values()), sum(self._sizes.values())
        elapsed = self._clock() - self._started
        parts = [
            f"loading {len(self._finished)}/{counted(len(self._sizes), 'rank')}",
            f"{decimal_size(done)}/{decimal_size(total)}",
        ]
        if elapsed >= _SETTLED_S and done:
            speed = done / elapsed
            left = duration(1e9 * max((total - done) / speed, 1))
            parts += [f"{decimal_size(speed)}/s", f"{left} left"]
        parts.append(_STOPS)
        return tuple(parts)

    def _draw(self) -> None:
        now = self._clock()
        if now - self._drawn >= _PERIOD_S:
            self._drawn = now
            _write_line(self._stream, self.parts)


def print_written(done: int, total: int) -> None:
    """Show on a terminal how many ranks are written."""
    if sys.stderr is not None and sys.stderr.isatty():
        end = "\r" if done < total else "\n"
        print(f"ccltui: {done} of {total} ranks written", end=end, file=sys.stderr, flush=True)


def _write_line(stream: TextIO, parts: Sequence[str]) -> None:
    """Replace the line by as many parts as fit: one that wraps could not be erased."""
    width = shutil.get_terminal_size().columns - 1  # in the last column some terminals wrap
    text = parts[0][:width]
    for part in parts[1:]:
        if len(text) + 2 + len(part) > width:
            break
        text += f"  {part}"
    stream.write(f"{_ERASE_LINE}{text}")
    stream.flush()
