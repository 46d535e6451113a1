"""Training logs: the steps of a run by the lines that its program prints, and how the run ended.

Of a log that every rank writes, the lines of the first rank are used; where a job went back to an
earlier step, the later line of a step counts. Timers of the parts of a step are those of DeepSpeed,
one number for each part, of the rank that prints, and of Megatron, which prints the least and the
most over the ranks (``--timing-log-option minmax``).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import Note
from ccltui.parsers.runs.failure_lines import CAUSES, KILLED, Cause, completed_at, failures_in
from ccltui.parsers.runs.step_lines import DIALECTS, Dialect, StepLine
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.file_sample import BoundedText, read_bounded
from ccltui.parsers.text.line_prefixes import Prefixes

_TAIL_CHARACTERS: Final = 400_000
_LONGEST: Final = 160


class RunEnd(Struct, frozen=True):
    """``kind`` is "completed", "killed", "failed", or "" where the log does not say."""

    kind: str = ""
    text: str = ""


_WATCHDOG: Final = re.compile(r"Watchdog caught collective operation timeout")
_ABORTED: Final = re.compile(r'"key": "run_stop"[^\n]{0,400}"status": "aborted"')
_WORDS: Final[dict[Cause, str]] = {
    "time_limit": "time limit",
    "node_failure": "node failure",
    "host_memory": "out of memory on the host",
    "device_memory": "out of device memory",
    "device_lost": "an error of a device",
    "device_error": "an error of a device",
    "signal": "a signal",
    "exit_code": "an exit code",
    "exception": "an exception",
}
"""Causes as a run is said to end with; others by their name, or as an error of communication."""
_RUN_STOP: Final = "MLPerf's run_stop with status success"


def run_end(text: str) -> RunEnd:
    """Return the end of the run by the last part of its log."""
    tail = text[-_TAIL_CHARACTERS:]
    found = failures_in(tail)
    first = min(found, key=lambda one: CAUSES[one.cause], default=None)
    done = completed_at(tail)
    is_late = first is None or first.cause in ("peer_gone", "other_error", "exit_code")
    if is_late and done is None and _WATCHDOG.search(tail):
        # the rank that prints first is not the one to blame
        said = "a collective did not end within the timeout of its group"
        return RunEnd("failed", f"watchdog of NCCL: {said}")
    if first is not None:
        kind = "killed" if first.cause in KILLED else "failed"
        return RunEnd(kind, f"{_words(first.cause)}: {_short(first.line)}")
    if done is None:
        aborted = _ABORTED.search(tail)
        return RunEnd("failed", "the run of MLPerf: its status is aborted") if aborted else RunEnd()
    if done[0].startswith('"key"'):
        return RunEnd("completed", _RUN_STOP)
    begin = tail.rfind("\n", 0, done.start()) + 1
    return RunEnd("completed", _short(printable(tail[begin:].partition("\n")[0].strip())))


def _words(cause: Cause) -> str:
    of_communication = ("link", "connect", "start", "peer_gone", "other_error", "mismatch")
    word = "an error of communication" if cause in of_communication else cause.replace("_", " ")
    return _WORDS.get(cause, word)


def _short(line: str) -> str:
    part = line[:_LONGEST]
    if len(line) > _LONGEST and " " in part[_LONGEST // 2 :]:
        part = f"{part.rpartition(' ')[0]} …"
    return part


_BEGIN: Final = 2_000_000  # where a program logs its options
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[.,]?(\d{0,6})")
_LINE_RANK: Final = re.compile(r"\[rank[ -]?(\d{1,7})(?:/\d+)?\]|\brank-(\d{1,7})/\d+")
_WORLD: Final = re.compile(
    r"using world size:? *(\d{1,8})|\bworld_size\s*\.{3,}\s*(\d{1,8})|\bWORLD_SIZE=(\d{1,8})"
    r"|\bparameters on (\d{1,8}) ranks\b"
)
_MESH: Final = re.compile(r"Building device mesh with parallelism: ([^\n]{0,200})")
_MESH_DEGREE: Final = re.compile(r"\b(?:dp_replicate|dp_shard|tp|pp|cp)=(\d{1,7})\b")
_OLD_MESH: Final = re.compile(
    r"Building \d+-D device mesh with \[[^\]\n]{0,200}\], \[([\d, ]{1,80})\]"
)
_LARGEST_WORLD: Final = 10**7
_TITAN_STEPS: Final = re.compile(r"total steps (\d{1,12})|--training\.steps[= ](\d{1,12})")
_LEAST_BAR_S: Final = 20.0
"""A progress bar counts whole seconds: between two lines at most 5 % of the time is rounding."""


class TrainingLog(Struct, frozen=True):
    """Steps of a log (or epochs, in the plain dialect), ascending.

    ``step`` int64; float64 with NaN where absent: ``loss``, ``time_s`` of one step,
    ``tokens_per_s`` and ``samples_per_s`` of the job where the log states them,
    ``tokens_per_s_per_device``, ``tflops_per_device``, ``memory_gib``, ``global_batch``, in
    sequences, and ``data_ms`` of a step that its program waits for data. Each ``time_s`` is the
    mean of ``steps_per_line`` steps. What a summary at the end of the log states of the whole run
    is ``mean_step_s`` and ``mean_samples_per_s``.
    """

    dialect: Dialect
    step: I64
    loss: F64
    time_s: F64
    tokens_per_s: F64
    samples_per_s: F64
    tokens_per_s_per_device: F64
    tflops_per_device: F64
    memory_gib: F64
    global_batch: F64
    data_ms: F64
    total_steps: int | None
    world_size: int | None
    end: RunEnd
    steps_per_line: int = 1
    mean_step_s: float | None = None
    mean_samples_per_s: float | None = None
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.step)


def read_training_log(path: Path, *, shown: str) -> TrainingLog:
    """The steps of a log, of a long one those of its beginning and its end.

    Raises TraceError for a file that cannot be read or is no text.
    """
    return training_log_of(read_bounded(path, shown=shown))


def training_log_of(text: BoundedText) -> TrainingLog:
    """Return the steps of a text that is read already."""
    # A progress bar is drawn over itself: its last state would be the end of a line of megabytes.
    parts = [part.replace("\r", "\n") for part in text.plain_of_ansi()]
    dialect, reading = _first_fitting(parts, text.prefixes)
    end = RunEnd()
    if parts:
        last = parts[-1][-_TAIL_CHARACTERS:]
        end = run_end(last)
        end = end if end.kind else run_end(text.prefixes.plain(last))
    begin = parts[0][:_BEGIN] if parts else ""
    return reading.log(dialect, _world(begin), _total(begin, reading), end, text.notes)


def _first_fitting(parts: list[str], prefixes: Prefixes) -> tuple[Dialect, _Reading]:
    for dialect, lines in DIALECTS.items():
        reading = _Reading(prefixes)
        for part in parts:
            reading.take(lines(part))
        if reading.rows or reading.summary:
            return dialect, reading
    return "none", _Reading(prefixes)


def _rank(head: str) -> int | None:
    match = _LINE_RANK.search(head)
    return None if match is None else int(match[1] or match[2])


def _stamp(head: str) -> float:
    """Seconds of the time that a line begins with, NaN without one."""
    match = _STAMP.search(head)
    if match is None:
        return math.nan
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
    except ValueError:
        return math.nan
    return moment.timestamp() + (float(f"0.{match[3]}") if match[3] else 0.0)


class _Reading:
    """Lines as one row a step."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes
        self.rows: dict[int, StepLine] = {}
        self.totals: list[int] = []
        self._rank: int | None = None
        self._last: int | None = None
        self._restarts = 0
        self.summary: StepLine | None = None
        self._is_counted = False

    def take(self, lines: Iterator[StepLine]) -> None:
        for line in lines:
            rank = _rank(line.head)
            if rank is None:  # the task of a launcher
                rank = self._prefixes.rank(self._prefixes.split(line.head)[0])
            if rank is not None and self._rank is None:
                self._rank = rank
            if rank != self._rank and rank is not None:
                continue
            if line.is_summary:
                line.read()
                self.summary = line
                continue
            self._is_counted |= line.step is None
            step = len(self.rows) + 1 if line.step is None else line.step
            if step == self._last:
                continue
            line.read()
            if self._last is not None and step < self._last:
                self._restarts += 1
            self._last = step
            self.rows[step] = line
            if line.total is not None:
                self.totals.append(line.total)

    def log(
        self,
        dialect: Dialect,
        world_size: int | None,
        total: int | None,
        end: RunEnd,
        notes: tuple[Note, ...],
    ) -> TrainingLog:
        steps = np.array(sorted(self.rows), np.int64)
        lines = [self.rows[step] for step in steps.tolist()]
        whole = {} if self.summary is None else self.summary.values
        time_s, steps_per_line = _times(lines, steps)
        is_timed = bool(np.isfinite(_column(lines, "time_ms")).any())
        if dialect == "nemo" or (dialect in ("counted", "progress") and is_timed):
            steps_per_line = 1  # the time of the step of the line, all others that since the last
        if self._is_counted:
            time_s, steps_per_line = np.full(len(lines), math.nan), 1
            message = "its lines state no step: they are numbered from 1"
            notes = (*notes, Note("counted_lines", message))
        if self._restarts:
            message = "the log goes back to earlier steps: the later line about a step counts"
            notes = (*notes, Note("restarted", message, count=self._restarts))
        stating = [line for line in lines if "loss" in line.values]
        if stating and not math.isfinite(stating[-1].values["loss"]):
            message = "the last loss that it states is not finite: only finite ones are used"
            notes = (*notes, Note("loss_not_finite", message))
        return TrainingLog(
            dialect=dialect,
            step=steps,
            time_s=time_s,
            **{name: _column(lines, name) for name in _STATED_COLUMNS},
            total_steps=total,
            world_size=world_size,
            end=end,
            steps_per_line=steps_per_line,
            mean_step_s=whole.get("mean_step_s"),
            mean_samples_per_s=whole.get("samples_per_s"),
            notes=notes,
        )


_STATED_COLUMNS: Final = (
    *("loss", "tokens_per_s", "samples_per_s", "tokens_per_s_per_device", "tflops_per_device"),
    *("memory_gib", "global_batch", "data_ms"),
)


def _column(lines: list[StepLine], name: str) -> F64:
    return np.array([line.values.get(name, math.nan) for line in lines], np.float64)


def _usual_step(steps: I64) -> int:
    return round(float(np.median(np.diff(steps)))) if len(steps) > 1 else 1


def _times(lines: list[StepLine], steps: I64) -> tuple[F64, int]:
    """Seconds of a step, and how many steps each is the mean of.

    As stated, else between the times of two lines over the steps between.
    """
    times = _column(lines, "time_ms") / 1e3
    clock = np.array([_stamp(line.head) for line in lines], np.float64)
    rows = np.arange(len(lines))
    if np.isfinite(times).any():
        return times, _usual_step(steps)
    if not np.isfinite(clock).any():
        clock = _column(lines, "elapsed_s")
        rows = _apart(clock)
    between = np.diff(clock[rows]) / np.diff(steps[rows])
    between[between <= 0] = math.nan
    times[rows[1:]] = between
    return times, _usual_step(steps[rows])


def _apart(clock: F64) -> I64:
    """Return rows of which each is at least ``_LEAST_BAR_S`` after the last."""
    found = [0] if len(clock) else []
    for row, at in enumerate(clock.tolist()):
        if at - clock[found[-1]] >= _LEAST_BAR_S:
            found.append(row)
    return np.array(found, np.int64)


def _world(begin: str) -> int | None:
    match = _WORLD.search(begin)
    return _mesh_size(begin) if match is None else _first_number(match)


def _mesh_size(begin: str) -> int | None:
    """Product of the degrees of torchtitan's mesh; those of experts lie across the others."""
    match = _MESH.search(begin)
    degrees = [] if match is None else _MESH_DEGREE.findall(match[1])
    if match is None and (match := _OLD_MESH.search(begin)) is not None:
        degrees = re.findall(r"\d{1,7}", match[1])
    size = math.prod(map(int, degrees))
    return size if degrees and 0 < size <= _LARGEST_WORLD else None


def _total(begin: str, reading: _Reading) -> int | None:
    if reading.totals:
        return reading.totals[-1]
    match = _TITAN_STEPS.search(begin)
    return None if match is None else _first_number(match)


def _first_number(match: re.Match[str]) -> int:
    return int(next(group for group in match.groups() if group))


_DEEPSPEED: Final = re.compile(r"time \(ms\) \| (?P<parts>\w[^\n]{0,600})")
_PART: Final = re.compile(r"(\w+): (\d{1,12}(?:\.\d{1,6})?)")
_NAMES: Final = {
    "forward": "forward",
    "fwd": "forward",
    "backward": "backward",
    "bwd": "backward",
    "backward_allreduce": "reduction",
    "bwd_allreduce": "reduction",
    "step": "optimizer",
}
_MICRO: Final = "_microstep"
_MEGATRON: Final = re.compile(
    r"\(min, max\) time across ranks \(ms\):[^\n]{0,20}\n"
    r"(?P<rows>(?:[^\n]{0,80}\.{3,}: \([^\n]{3,60}\)\n?)+)"
)
_ROW: Final = re.compile(r"([a-z][\w-]{2,60}) \.{3,}: \((\d{1,12}\.\d{1,6}), (\d{1,12}\.\d{1,6})\)")
_MOST: Final = 100_000


class StepTimers(Struct, frozen=True):
    """Times in ms of each line that states them.

    ``parts`` are of one rank, by "forward", "backward" (without reduction), "reduction" of
    gradients and "optimizer"; ``is_micro`` where they are of micro-steps. ``ranges`` are least and
    most over ranks, by the name of the program.
    """

    parts: Mapping[str, list[float]] = field(default_factory=dict)
    ranges: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)
    is_micro: bool = False


def read_timers(text: BoundedText) -> StepTimers:
    """Return what the timers in a log state."""
    whole: dict[str, list[float]] = defaultdict(list)
    micro: dict[str, list[float]] = defaultdict(list)
    ranges: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for part in text.plain_parts:
        if "time (ms) |" in part:
            for match in _DEEPSPEED.finditer(part):
                _take(match["parts"], whole, micro)
        if "time across ranks" in part:
            for block in _MEGATRON.finditer(part):
                for name, least, most in _ROW.findall(block["rows"]):
                    ranges[name].append((float(least), float(most)))
    chosen = whole or micro
    kept = {name: times[-_MOST:] for name, times in chosen.items()}
    return StepTimers(kept, dict(ranges), bool(micro) and not whole)


def _take(text: str, whole: dict[str, list[float]], micro: dict[str, list[float]]) -> None:
    """Add one line of DeepSpeed: those of a micro-step and of a step are lines of their own."""
    found: dict[str, float] = {}
    is_micro = _MICRO in text
    for name, number in _PART.findall(text):
        known = _NAMES.get(name.removesuffix(_MICRO))
        if known is not None:
            found[known] = float(number)
    if "backward" in found and "reduction" in found:
        found["backward"] = max(found["backward"] - found["reduction"], 0.0)
    if {"forward", "backward"} <= found.keys():
        for name, value in found.items():
            (micro if is_micro else whole)[name].append(value)
