"""Training logs: the step lines of torchtitan, of Megatron, of DeepSpeed, and of plain programs.

Of a log that every rank writes, the lines of the first rank are used; where a job went back to an
earlier step, the later line of a step counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import Note
from ccltui.parsers.names import printable
from ccltui.parsers.text.bounded_text import BoundedText, read_bounded
from ccltui.parsers.text.json_fields import LARGEST_NUMBER
from ccltui.parsers.text.line_prefixes import Prefixes

_TAIL_CHARACTERS: Final = 400_000
_LONGEST: Final = 160


class RunEnd(Struct, frozen=True):
    """``kind`` is "completed", "killed", "failed", or "" where the log does not say."""

    kind: str = ""
    text: str = ""


_KILLED: Final = (
    ("time limit", re.compile(r"CANCELLED AT .{0,40}DUE TO TIME LIMIT")),
    ("node failure", re.compile(r"CANCELLED AT .{0,40}DUE TO NODE FAILURE")),
    ("preempted", re.compile(r"CANCELLED AT .{0,40}DUE TO PREEMPTION")),
    ("cancelled", re.compile(r"(?:slurmstepd|srun): error: .{0,120}CANCELLED")),
    ("out of memory on the host", re.compile(r"oom[_-]kill|Out Of Memory|OOM Killed")),
    ("a signal", re.compile(r"exit(?:ed with )?code\s*:?\s*-\d+|Signal \d+ \(SIG[A-Z]+\)")),
    ("a signal", re.compile(r"Received \d+ death signal|died from signal \d+|exited with signal")),
)
_FAILED: Final = (
    ("out of device memory", re.compile(r"(?:OutOfMemoryError|CUDA out of memory)")),
    ("watchdog of NCCL", re.compile(r"Watchdog caught collective operation timeout")),
    ("an error of NCCL", re.compile(r"ncclRemoteError|ncclSystemError|ncclInternalError")),
    ("an exception", re.compile(r"^(?:\S*: )?(?:\w+\.)*\w+(?:Error|Exception): .*$", re.MULTILINE)),
)
_STATED: Final = {
    "watchdog of NCCL": "a collective did not end within the timeout of its group",
}
"""What is said in place of the line: the rank that prints first is not the one to blame."""
_COMPLETED: Final = re.compile(
    r"RUN_COMPLETE\b|Training completed|\[after training is done\]|Training complete\b"
)


def run_end(text: str) -> RunEnd:
    """Return the end of the run by the last part of its log."""
    tail = text[-_TAIL_CHARACTERS:]
    ends = list(_COMPLETED.finditer(tail))
    done = ends[-1] if ends else None
    after = tail if done is None else tail[done.end() :]
    for kind, patterns in (("killed", _KILLED), ("failed", _FAILED)):
        for what, pattern in patterns:
            match = pattern.search(after)
            # An exception while shutting down leaves what was completed complete.
            if match is not None and (done is None or kind == "killed"):
                return RunEnd(kind, f"{what}: {_STATED.get(what) or _line(after, match)}")
    return RunEnd() if done is None else RunEnd("completed", _line(tail, done))


def _line(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    line = text[start : len(text) if end < 0 else end].strip()
    at = max(match.start() - start - 20, 0) if len(line) > _LONGEST else 0
    part = line[at : at + _LONGEST]
    if at + _LONGEST < len(line) and " " in part[_LONGEST // 2 :]:
        part = f"{part.rpartition(' ')[0]} …"
    if at and " " in part[: _LONGEST // 2]:
        part = f"… {part.partition(' ')[2]}"
    return printable(part)


Dialect = Literal["torchtitan", "megatron", "deepspeed", "plain", "none"]

_NUMBER: Final = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
# Each begins with plain characters, which are searched for fast; the line is cut out around it.
_TITAN: Final = re.compile(rf"step:\s*(?P<step>\d{{1,12}})\s+loss:\s*(?P<loss>{_NUMBER})")
_MEGATRON: Final = re.compile(
    r"iteration\s+(?P<step>\d{1,12})\s*/\s*(?P<total>\d{1,12}|infinity)\s*\|"
)
_DEEPSPEED: Final = re.compile(r"global_step=(?P<step>\d{1,12}),\s*RunningAvgSamplesPerSec=")
_BEGIN: Final = 2_000_000  # where a program logs its options
_LONGEST_HEAD: Final = 400
_LONGEST_REST: Final = 2000
_EPOCH: Final = re.compile(
    rf"Epoch (?P<step>\d{{1,9}}) finished\. Avg Loss: (?P<loss>{_NUMBER}), "
    rf"Time: {_NUMBER}s, Throughput: (?P<tokens>{_NUMBER}) tokens/sec"
)
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
_FIELDS: Final = {
    "grad_norm": re.compile(rf"grad[ _]norm:\s*({_NUMBER})"),
    "memory_gib": re.compile(rf"(?:memory:\s*({_NUMBER})\s*GiB|MaxMemAllocated=({_NUMBER})GB)"),
    "tokens_per_s_per_device": re.compile(
        rf"(?:\btps:|tokens/sec/GPU:|tokens per GPU \(tokens/s/GPU\):)\s*({_NUMBER})"
    ),
    "tflops_per_device": re.compile(
        rf"(?:\btflops:|throughput per GPU \(TFLOP/s/GPU\):)\s*({_NUMBER})"
    ),
    "mfu_pct": re.compile(rf"\bmfu:\s*({_NUMBER})%"),
    "time_ms": re.compile(rf"elapsed time per iteration \(ms\):\s*({_NUMBER})"),
    "loss": re.compile(rf"\blm loss:\s*({_NUMBER})"),
    "tokens_per_s": re.compile(rf"^throughput: ({_NUMBER})$"),
    "global_batch": re.compile(r"global batch size:\s*(\d{1,12})"),
}
_Values = dict[str, float]


class TrainingLog(Struct, frozen=True):
    """Steps of a log (or epochs, in the plain dialect), ascending.

    ``step`` int64; float64 with NaN where absent: ``loss``, ``time_s`` of one step,
    ``tokens_per_s`` of the job where the log states it, ``tokens_per_s_per_device``,
    ``tflops_per_device``, ``memory_gib``, ``global_batch`` (sequences).
    """

    dialect: Dialect
    step: I64
    loss: F64
    time_s: F64
    tokens_per_s: F64
    tokens_per_s_per_device: F64
    tflops_per_device: F64
    memory_gib: F64
    global_batch: F64
    total_steps: int | None
    world_size: int | None
    end: RunEnd
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
    parts = list(text.plain_of_ansi())
    dialect, reading = _first_fitting(parts, text.prefixes)
    end = run_end(parts[-1]) if parts else RunEnd()
    begin = parts[0][:_BEGIN] if parts else ""
    return reading.log(dialect, _world(begin), _total(begin, reading), end, text.notes)


def _first_fitting(parts: list[str], prefixes: Prefixes) -> tuple[Dialect, _Reading]:
    for dialect, lines in _DIALECTS.items():
        reading = _Reading(prefixes)
        for part in parts:
            reading.take(lines(part))
        if reading.rows:
            return dialect, reading
    return "none", _Reading(prefixes)


class _Line(Struct):
    """A step line, its numbers as text until it is known to be wanted."""

    step: int
    head: str
    rest: str
    loss: str = ""
    total: int | None = None
    values: _Values = field(default_factory=dict)

    def read(self) -> None:
        self.values = _values(self.rest)
        if self.loss:
            self.values["loss"] = _float(self.loss)


def _titan_lines(text: str) -> Iterator[_Line]:
    for match in _TITAN.finditer(text):
        head, rest = _around(text, match)
        if not head.endswith("validate "):
            yield _Line(int(match["step"]), head, rest, match["loss"])


def _megatron_lines(text: str) -> Iterator[_Line]:
    for match in _MEGATRON.finditer(text):
        head, rest = _around(text, match)
        total = None if match["total"] == "infinity" else int(match["total"])
        yield _Line(int(match["step"]), head, rest, total=total)


def _deepspeed_lines(text: str) -> Iterator[_Line]:
    for match in _DEEPSPEED.finditer(text):
        head, rest = _around(text, match)
        yield _Line(int(match["step"]), head, rest)


def _around(text: str, match: re.Match[str]) -> tuple[str, str]:
    """Return the text before and after a match in its line."""
    first = max(match.start() - _LONGEST_HEAD, 0)
    begin = max(text.rfind("\n", first, match.start()) + 1, first)
    last = min(match.end() + _LONGEST_REST, len(text))
    end = text.find("\n", match.end(), last)
    return text[begin : match.start()], text[match.end() : last if end < 0 else end]


def _epoch_lines(text: str) -> Iterator[_Line]:
    for match in _EPOCH.finditer(text):
        yield _Line(int(match["step"]), "", f"throughput: {match['tokens']}", match["loss"])


_DIALECTS: Final[dict[Dialect, Callable[[str], Iterator[_Line]]]] = {
    "torchtitan": _titan_lines,
    "megatron": _megatron_lines,
    "deepspeed": _deepspeed_lines,
    "plain": _epoch_lines,
}


def _values(rest: str) -> _Values:
    found = {}
    for name, pattern in _FIELDS.items():
        match = pattern.search(rest)
        if match:
            found[name] = _float(match[match.lastindex or 1])
    return found


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


def _float(text: str) -> float:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return math.nan
    return number if abs(number) <= LARGEST_NUMBER else math.nan


class _Reading:
    """Lines as one row a step."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes
        self.rows: dict[int, _Line] = {}
        self.totals: list[int] = []
        self._rank: int | None = None
        self._last: int | None = None
        self._restarts = 0

    def take(self, lines: Iterator[_Line]) -> None:
        for line in lines:
            rank = _rank(line.head)
            if rank is None:  # the task of a launcher
                rank = self._prefixes.rank(self._prefixes.split(line.head)[0])
            if rank is not None and self._rank is None:
                self._rank = rank
            if rank != self._rank and rank is not None:
                continue
            if line.step == self._last:
                continue
            line.read()
            if self._last is not None and line.step < self._last:
                self._restarts += 1
            self._last = line.step
            self.rows[line.step] = line
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
        lines = [self.rows[step] for step in sorted(self.rows)]
        if self._restarts:
            message = "the log goes back to earlier steps: the later line about a step counts"
            notes = (*notes, Note("restarted", message, count=self._restarts))
        return TrainingLog(
            dialect=dialect,
            step=np.array([line.step for line in lines], np.int64),
            loss=_column(lines, "loss"),
            time_s=_times(lines),
            tokens_per_s=_column(lines, "tokens_per_s"),
            tokens_per_s_per_device=_column(lines, "tokens_per_s_per_device"),
            tflops_per_device=_column(lines, "tflops_per_device"),
            memory_gib=_column(lines, "memory_gib"),
            global_batch=_column(lines, "global_batch"),
            total_steps=total,
            world_size=world_size,
            end=end,
            notes=notes,
        )


def _column(lines: list[_Line], name: str) -> F64:
    return np.array([line.values.get(name, math.nan) for line in lines], np.float64)


def _times(lines: list[_Line]) -> F64:
    """Seconds of a step: as stated, else between the times of two lines over the steps between."""
    told = _column(lines, "time_ms") / 1e3
    if not len(lines) or np.isfinite(told).any():
        return told
    steps = np.array([line.step for line in lines], np.float64)
    stamps = np.array([_stamp(line.head) for line in lines], np.float64)
    between = np.full(len(lines), math.nan)
    between[1:] = np.diff(stamps) / np.diff(steps)
    between[between <= 0] = math.nan
    return between


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
