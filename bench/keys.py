"""Measure the explorer in a pseudo-terminal: bytes and time per key, memory, idle output."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyte
from msgspec import Struct

from bench.side_files import write_side_files

_LONGEST_S = 240.0
_QUIET_S = 0.12
_FIRST_S = 1.0
_END_S = 60.0
_FRAME_S = 0.033
SPLASH, PAINTED = b"opening", b"help"
"""Last words of the splash's first line and of the key line, which is drawn last."""
_PRIVATE = re.compile(rb"\x1b\[[<>=][\d;]*[a-zA-Z]|\x1b\[\?[\d;]*\$p|\x1bP[^\x1b]*\x1b\\")

_KEY = re.compile(r"\x1b\[\d+u|.")


class Pressed(Struct, frozen=True):
    """Cost of keys of one kind, up to the last byte of output; CPU is that of the process.

    Milliseconds are wall time minus the time in which the drawing thread was runnable but had
    no CPU, because other processes may use the machine.
    """

    bytes_median: float
    bytes_most: int
    p50_ms: float
    p95_ms: float
    cpu_ms: float


class KeyRun(Struct, frozen=True):
    """Figures of one session of the explorer with one job and terminal size."""

    columns: int
    events: int

    splash_cpu_ms: float
    paint_cpu_ms: float
    loading: Pressed
    keys: dict[str, Pressed]
    side: dict[str, Pressed]
    held_bytes: int
    held_settled_ms: float
    idle_bytes: int
    resident_mib: float
    of_files_mib: float  # of these, pages of files, which the system may drop
    empty_mib: float  # resident without any trace


def key_run(output: Mapping[str, Any]) -> KeyRun:
    """Return a session from the JSON of a child process."""
    keys = {name: Pressed(**cost) for name, cost in output["keys"].items()}
    side = {name: Pressed(**cost) for name, cost in output["side"].items()}
    loading = Pressed(**output["loading"])
    return KeyRun(**{**output, "keys": keys, "side": side, "loading": loading})


class Screen:
    """A child process in a pseudo-terminal, and its screen."""

    def __init__(self, command: Sequence[str], width: int, height: int) -> None:
        self.started = time.perf_counter()
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            exec_explorer(command)
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self._screen)
        self._unparsed = b""
        self._used_ms = 0.0

    def rows(self) -> list[str]:
        """Return the lines of the screen."""
        return list(self._screen.display)

    def read(self, quiet_s: float = _QUIET_S, first_s: float = 0.0) -> tuple[int, float]:
        """Read until no output came for ``quiet_s``; return its bytes and the time of the last.

        The first output may come later, after ``first_s``: on a busy machine the answer to a key
        takes longer than the pause that ends it.
        """
        parts, last = [], time.perf_counter()
        pause = max(first_s, quiet_s)
        while select.select([self.descriptor], [], [], pause)[0]:
            pause = quiet_s
            try:
                parts.append(os.read(self.descriptor, 1 << 20))
            except OSError:
                break
            last = time.perf_counter()
        data = b"".join(parts)
        self._stream.feed(_PRIVATE.sub(b"", self._unparsed + data))
        self._unparsed = b""
        return len(data), last

    def cpu_until(self, sign: bytes) -> float:
        """Return the CPU milliseconds used when ``sign`` is written, taken before it is parsed.

        What was read behind it counts for the next call.
        """
        while sign not in self._unparsed:
            left = _LONGEST_S - (time.perf_counter() - self.started)
            if not select.select([self.descriptor], [], [], max(left, 0.0))[0]:
                raise TimeoutError(self._unparsed.decode(errors="replace"))
            self._unparsed += os.read(self.descriptor, 1 << 20)
            self._used_ms = self.cpu_ms()
        before, _, self._unparsed = self._unparsed.partition(sign)
        self._stream.feed(_PRIVATE.sub(b"", before + sign))
        return self._used_ms

    def wait_until(self, holds: Callable[[list[str]], bool]) -> None:
        """Read until a condition on the rows of the screen is true."""
        while not holds(self.rows()):
            if time.perf_counter() - self.started > _LONGEST_S:
                raise TimeoutError("\n".join(self.rows()))
            self.read(0.02)

    def press(self, key: str) -> tuple[int, float, float]:
        """Press a key; return bytes of output, ms to the last of them, and ms of CPU time."""
        cpu, before = self.cpu_ms(), time.perf_counter()
        waited = self.waited_ms()
        os.write(self.descriptor, key.encode())
        size, last = self.read(first_s=_FIRST_S)
        took = (last - before) * 1e3 - (self.waited_ms() - waited)
        return size, max(took, 0.0), self.cpu_ms() - cpu

    def waited_ms(self) -> float:
        """Return the total time that the drawing thread has waited for a CPU."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e6

    def cpu_ms(self) -> float:
        """Return the CPU time of all live threads of the drawing process."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e6

    def resident_mib(self) -> tuple[float, float]:
        """Return resident memory, and the part of it that is pages of files."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = dict(re.findall(r"^(Rss\w+|VmRSS):\s+(\d+) kB", status, re.MULTILINE))
        return int(found["VmRSS"]) / 1024, int(found["RssFile"]) / 1024

    def close(self) -> None:
        """Terminate the child."""
        end_child(self.pid, self.descriptor)


KINDS: tuple[tuple[str, str, str], ...] = (
    ("pane switch", "", "2323"),
    ("heat: next worst", "2", "]]]]]]]["),
    ("heat: cursor step", "", "llllllhhhh"),
    ("heat: rank", "", "jjjkkk"),
    ("heat: zoom", "0", "wwwsss"),
    ("heat: pan", "www", "ddddaaaa"),
    ("lanes: zoom", "30", "wwwwwwsss"),
    ("lanes: pan", "0wwww", "ddddddddaaaaaaaa"),
    ("lanes: cursor step", "f", "llllllhhhh"),
    ("lanes: rank", "", "jjjkkk"),
    ("lanes: next worst", "", "]]]]"),
    ("inspector", "", "E\x1b[27uE\x1b[27uE\x1b[27u"),
    ("chain of a wait", "", "Z"),
    ("lanes of the host", "3", "UU"),
    ("steps: row", "6", "jjjjkkkk"),
    ("kernels: row", "*", "jjjjkkkk"),
    ("kernels: order", "", "oo"),
    ("parallelism: row", "%", "jjjkkk"),
    ("ranks: row", "$", "jjjkkk"),
    ("ranks: folds", "", "CCCCC"),
    ("files: row", "5", "jjjkkk"),
    ("files: order", "", "oo"),
    ("choose a rank", "2", "@\x1b[27u"),
)
"""Name, keys pressed before, keys that are measured."""
SIDE_KINDS: tuple[tuple[str, str, str], ...] = (
    ("reports: row", "9", "jjjkkk"),
    ("reports: order", "", "oo"),
    ("runs: row", "7", "jjjkkk"),
    ("files of texts: row", "5", "jjjkkk"),
)
"""The same of the panes that a folder of texts and of runs fills."""


def _keys(text: str) -> list[str]:
    """Divide a text into keys; an escape sequence is one."""
    return _KEY.findall(text)


def drive(directory: Path, cache: Path, ranks: int, events: int, size: tuple[int, int]) -> KeyRun:
    """Open a job, press keys while it loads and afterwards, and measure them.

    Raises:
        TimeoutError: The explorer did not reach a state; the message is its screen.
    """
    width, height = size
    command = [sys.executable, "-P", "-m", "ccltui", str(directory), "--cache-dir", str(cache)]
    screen = Screen(command, width, height)
    try:
        splash = screen.cpu_until(SPLASH)
        paint = screen.cpu_until(PAINTED)
        loading = _while_loading(screen, f"{ranks}/{ranks}")
        screen.wait_until(lambda rows: not any(row.endswith("computing ") for row in rows))
        screen.read(1.0)
        keys = _press_kinds(screen, KINDS)
        held = _hold_key(screen)
        resident, of_files = screen.resident_mib()
        screen.read(0.5)
        idle, _ = screen.read(5.0)
        return KeyRun(
            *(width, events, splash, paint, loading, keys, side_panes(size)),
            *(*held, idle, resident, of_files, _empty_mib(size)),
        )
    finally:
        screen.close()


def _press_kinds(screen: Screen, kinds: Sequence[tuple[str, str, str]]) -> dict[str, Pressed]:
    """Press the keys of each kind; return what they cost."""
    keys = {}
    for name, before, measured in kinds:
        for key in before:
            screen.press(key)
        screen.read(0.5)  # a pane that is opened first computes its rows
        keys[name] = _cost([screen.press(key) for key in _keys(measured)])
    return keys


def side_panes(size: tuple[int, int]) -> dict[str, Pressed]:
    """Press keys in the panes beside those of traces, on a folder of texts and of runs.

    Raises:
        TimeoutError: The explorer did not reach a state; the message is its screen.
    """
    with tempfile.TemporaryDirectory(prefix="ccltui-bench-") as folder:
        write_side_files(Path(folder))
        screen = Screen([sys.executable, "-P", "-m", "ccltui", folder, "--no-cache"], *size)
        try:
            screen.wait_until(lambda rows: "2/2" in rows[0] and "loading" not in "".join(rows))
            screen.press("9")
            screen.wait_until(lambda rows: not any("being read" in row for row in rows))
            screen.read(1.0)
            return _press_kinds(screen, SIDE_KINDS)
        finally:
            screen.close()


def _empty_mib(size: tuple[int, int]) -> float:
    """Return the resident memory of the explorer on an empty directory."""
    with tempfile.TemporaryDirectory() as folder:
        screen = Screen([sys.executable, "-P", "-m", "ccltui", folder], *size)
        try:
            screen.wait_until(lambda rows: any("No trace" in row for row in rows))
            screen.read(1.0)
            return screen.resident_mib()[0]
        finally:
            screen.close()


def heat_frame_ms(ranks: int, collectives: int, size: tuple[int, int]) -> list[float]:
    """Return CPU milliseconds of frames of a heat map of random lags, at zooms and positions."""
    import numpy as np  # noqa: PLC0415  (the driving process stays small)

    from ccltui.draw.alignment_chart import Columns, Heat, align  # noqa: PLC0415

    late = np.random.default_rng(1).exponential(1e5, (ranks, collectives)).astype(np.int64)
    heat, labels = Heat(late), [f"r{rank}" for rank in range(ranks)]
    found = []
    for per_cell in (1, 2, 8, 32, 64):
        for first in range(0, collectives // 2, max(collectives // 10, 1)):
            begun = time.process_time()
            align(
                heat,
                labels,
                Columns(first // per_cell * per_cell, per_cell),
                height=size[1] - 6,
                width=size[0],
                gutter=12,
                floor_ns=100_000,
                top_ns=10_000_000,
                selected=(3, first),
            )
            found.append((time.process_time() - begun) * 1e3)
    return found


def _while_loading(screen: Screen, loaded: str) -> Pressed:
    """Press keys that switch panes until every rank is loaded; return their cost."""
    presses: list[tuple[int, float, float]] = []
    while not any(loaded in row for row in screen.rows()):
        overdue = time.perf_counter() - screen.started > _LONGEST_S
        if overdue or "nothing to show" in screen.rows()[0]:
            raise TimeoutError("\n".join(screen.rows()))
        before, waited = time.perf_counter(), screen.waited_ms()
        os.write(screen.descriptor, b"21"[len(presses) % 2 :][:1])
        select.select([screen.descriptor], [], [], 5.0)
        first_ms = (time.perf_counter() - before) * 1e3 - (screen.waited_ms() - waited)
        size, _ = screen.read(0.05)
        presses.append((size, max(first_ms, 0.0), 0.0))
    return _cost(presses or [(0, 0.0, 0.0)])


def _hold_key(screen: Screen) -> tuple[int, float]:
    """Pan the timeline thirty times at thirty per second; return bytes, and ms of output after.

    Raises:
        TimeoutError: Nothing was written: the key had no effect.
    """
    for key in "30wwww":
        screen.press(key)
    size = 0
    for index in range(30):
        before = time.perf_counter()
        os.write(screen.descriptor, b"d" if index % 20 < 10 else b"a")
        while (left := before + _FRAME_S - time.perf_counter()) > 0:
            size += screen.read(left)[0]
    ended = time.perf_counter()
    rest, last = screen.read(first_s=_FIRST_S)
    if not size + rest:
        raise TimeoutError("\n".join(screen.rows()))
    return size + rest, max(last - ended, 0.0) * 1e3


def _cost(presses: Sequence[tuple[int, float, float]]) -> Pressed:
    sizes, times, cpu = zip(*presses, strict=True)
    ordered = sorted(times)
    p95 = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    return Pressed(
        statistics.median(sizes), max(sizes), statistics.median(times), p95, statistics.median(cpu)
    )


def end_child(pid: int, descriptor: int) -> None:
    """Terminate a child and close its terminal.

    Raises:
        TimeoutError: It did not end, and was killed.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    os.close(descriptor)
    end = time.monotonic() + _END_S
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"it did not end within {_END_S:g} s of SIGTERM")


def exec_explorer(command: Sequence[str]) -> NoReturn:
    """Become the explorer, in a terminal of 256 colours."""
    os.environ.update(TERM="xterm-256color", COLORTERM="")
    for name in ("NO_COLOR", "COLUMNS", "LINES", "TMUX"):
        os.environ.pop(name, None)
    os.execv(command[0], list(command))
