"""Measure whole processes with wait4: CPU seconds, wall seconds, peak resident memory."""

from __future__ import annotations

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
SAFE_PATH = {"PYTHONSAFEPATH": "1"}  # a variable, because a peer's Python may not support -P
_SINGLE = {"OPENBLAS_NUM_THREADS": "1"}  # starting idle threads of numpy costs CPU seconds
OURS = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
"""Makes bench importable with a safe path; it is not installed."""
_LIMIT_S = 3600.0


class RunError(RuntimeError):
    """Exception raised when a process fails; the message is the last line of its stderr."""


class Run(Struct, frozen=True):
    """Cost of one process; ``cpu_s`` and ``peak_mib`` include children that it waited for.

    ``peak_mib`` is that of the largest single process, not the sum. ``output`` is the JSON object
    on the last line of stdout.
    """

    cpu_s: float
    wall_s: float
    peak_mib: float
    output: Mapping[str, Any]


class Spread(Struct, frozen=True):
    """Median and extremes of repeated measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of one or more values."""
        return cls(statistics.median(values), min(values), max(values))


class Command(Struct, frozen=True):
    """A command line; ``environment`` is added to that of this process."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def child(cls, task: str, *arguments: str | Path | int, **environment: str) -> Command:
        """Return the command of a task of :mod:`bench.child` in this interpreter."""
        command = (sys.executable, "-m", "bench.child", task, *map(str, arguments))
        return cls(command, {**OURS, **environment})


def run(command: Command) -> Run:
    """Run one process to its end.

    Raises:
        RunError: It failed or printed no JSON.
    """
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command.arguments,
            cwd=ROOT,
            env={**os.environ, **_SINGLE, **SAFE_PATH, **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        limit = threading.Timer(_LIMIT_S, process.kill)
        limit.start()
        assert process.stdout is not None
        with process.stdout as pipe:
            stdout = pipe.read()
        _, status, used = os.wait4(process.pid, 0)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - started
        errors.seek(0)
        error_text = errors.read().decode("utf-8", "replace")
    if process.returncode:
        raise RunError(_last_line(error_text) or f"ended with {process.returncode}")
    try:
        output = json.loads(_last_line(stdout.decode("utf-8", "replace")))
    except ValueError as error:
        raise RunError("printed no result") from error
    return Run(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss / 1024, output)


def compile_modules() -> None:
    """Write the bytecode of all modules, as an installation does.

    Otherwise every process compiles them again if the environment forbids writing bytecode.
    """
    for package in ("parsers", "metrics", "ccltui", "bench"):
        compileall.compile_dir(ROOT / package, quiet=1)


def alternate(
    commands: Mapping[str, Command], rounds: int, *, log: Callable[[str], None]
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Run every command once per round, starting each round with the next command.

    Returns:
        The runs by name, and the reason of each failure by name; a command that fails is not run
        again.
    """
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    failures: dict[str, str] = {}
    for index in range(rounds):
        for name in _rotated(list(commands), index):
            if name in failures:
                continue
            try:
                done = run(commands[name])
            except RunError as error:
                failures[name] = str(error)
                runs.pop(name)
                log(f"  round {index + 1}  {name}: {error}")
                continue
            runs[name].append(done)
            log(f"  round {index + 1}  {name}: {done.cpu_s:.2f} CPU-s, {done.peak_mib:.0f} MiB")
    return runs, failures


def _rotated(names: list[str], by: int) -> Iterator[str]:
    cut = by % len(names)
    yield from names[cut:]
    yield from names[:cut]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
