"""Measure seconds until the explorer shows the value of a metric, in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from pathlib import Path

import pyte

from bench.keys import end_child, exec_explorer
from bench.results import OpeningTimes

ROWS, COLUMNS = 40, 120
_LONGEST_S = 120.0
_QUIET_S = 0.02
_VALUE = re.compile(r"Step [0-9][0-9,.]* [a-z]+")  # the title above what a step consists of
_PRIVATE = re.compile(rb"\x1b\[[<>=][\d;]*[a-zA-Z]|\x1b\[\?[\d;]*\$p")


def time_first_opening(directory: Path, cache: Path, ranks: int) -> OpeningTimes:
    """Open ``directory`` in the explorer until a metric and all ``ranks`` are shown.

    Raises:
        TimeoutError: They were not shown in time; the message is the screen.
    """
    command = [sys.executable, "-P", "-m", "ccltui", str(directory), "--cache-dir", str(cache)]
    started = time.perf_counter()
    pid, descriptor = pty.fork()
    if pid == 0:
        exec_explorer(command)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    try:
        return _time_states(descriptor, started, f"{ranks}/{ranks}")
    finally:
        end_child(pid, descriptor)


def _time_states(descriptor: int, started: float, loaded: str) -> OpeningTimes:
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    screen_s = metric_s = None
    line = ""
    while time.perf_counter() - started < _LONGEST_S:
        data = _read(descriptor)
        now = time.perf_counter() - started
        if not data:
            continue
        stream.feed(_PRIVATE.sub(b"", data))
        rows = screen.display
        if screen_s is None and any(row.strip() for row in rows):
            screen_s = now
        if metric_s is None:
            line = next((row.strip() for row in rows if _VALUE.search(row)), "")
            metric_s = now if line else None
        if metric_s is not None and screen_s is not None and any(loaded in row for row in rows):
            return OpeningTimes(screen_s, metric_s, now, line)
    raise TimeoutError("\n".join(row.rstrip() for row in screen.display))


def _read(descriptor: int) -> bytes:
    if not select.select([descriptor], [], [], _QUIET_S)[0]:
        return b""
    try:
        return os.read(descriptor, 1 << 20)
    except OSError:
        return b""
