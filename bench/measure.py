"""Whole processes, measured by the kernel: CPU seconds, wall seconds, peak resident memory."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAFE_PATH = {"PYTHONSAFEPATH": "1"}  # a variable, because a peer's Python may be without -P
_SINGLE = {"OPENBLAS_NUM_THREADS": "1"}  # idle threads of numpy cost CPU seconds at the start
OURS = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
"""bench itself is not installed; a safe path finds it by this."""
_LIMIT_S = 3600.0


class RunError(RuntimeError):
    """A process failed; the message is the last line that it wrote to stderr."""


@dataclass(frozen=True, slots=True)
class Run:
    """One process. ``cpu_s`` and ``peak_mib`` cover those of its children that it waited for.

    ``peak_mib`` is the largest single process, not the sum. ``said`` is the JSON object on the
    last line of stdout.
    """

    cpu_s: float
    wall_s: float
    peak_mib: float
    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and extremes of repeated measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Command:
    """What to start; ``environment`` comes on top of the one of this process."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def child(cls, task: str, *arguments: str | Path | int, **environment: str) -> Command:
        """A task of :mod:`bench.child` under this interpreter."""
        words = (sys.executable, "-m", "bench.child", task, *map(str, arguments))
        return cls(words, {**OURS, **environment})


def run(command: Command) -> Run:
    """Run one process to its end; raises RunError where it fails or says nothing."""
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
            output = pipe.read()
        _, status, used = os.wait4(process.pid, 0)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - started
        errors.seek(0)
        complaint = errors.read().decode("utf-8", "replace")
    if process.returncode:
        raise RunError(_last_line(complaint) or f"ended with {process.returncode}")
    try:
        said = json.loads(_last_line(output.decode("utf-8", "replace")))
    except ValueError as error:
        raise RunError("printed no result") from error
    return Run(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss / 1024, said)


def compile_modules() -> None:
    """Leave the bytecode of our modules beside them, as an install does.

    Otherwise each process would compile them anew where the environment forbids to write any.
    """
    for package in ("parsers", "metrics", "ccltui", "bench"):
        compileall.compile_dir(ROOT / package, quiet=1)


def alternate(
    commands: Mapping[str, Command], rounds: int, *, say: Callable[[str], None]
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Every command once a round, each round beginning with the next one of them.

    Returns the runs by name, and why those failed that did; one that fails is not tried again.
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
                say(f"  round {index + 1}  {name}: {error}")
                continue
            runs[name].append(done)
            say(f"  round {index + 1}  {name}: {done.cpu_s:.2f} CPU-s, {done.peak_mib:.0f} MiB")
    return runs, failures


def _rotated(names: list[str], by: int) -> Iterator[str]:
    cut = by % len(names)
    yield from names[cut:]
    yield from names[:cut]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
