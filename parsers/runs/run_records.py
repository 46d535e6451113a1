"""Small files that a run leaves: its configuration, how it started and ended, steps and summaries.

Of a configuration (sections of keys in TOML, as torchtitan read until 0.2) only what the file
states is kept; what a program takes where a key is absent depends on its version and is not guessed
here.

The summary of communication that DeepSpeed logs is tables of operations and message sizes, whose
columns are found by the names in the header. With the effect of stragglers DeepSpeed prints a
second table: how long an operation waited for the last rank, and how long it then took.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.file_sample import BoundedText, read_bounded
from ccltui.parsers.text.json_fields import Fields, finite, finite_or_nan, read_object, stated

MAX_BYTES: Final = 1 << 20

Value = str | int | float | bool


class ConfigError(TraceError):
    """A configuration file cannot be used."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Stated values by dotted key: ``parallelism.tensor_parallel_degree``."""

    path: str
    values: Mapping[str, Value]

    def integer(self, key: str) -> int | None:
        """A whole number, None where the key is absent. Raises ConfigError for anything else."""
        value = self.values.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise ConfigError(
            f"{printable(key)} is {_quoted(value)}, not a whole number", path=self.path
        )

    def count(self, key: str) -> int | None:
        """A whole number above 0, None where absent or otherwise (-1 means automatic)."""
        number = self.integer(key)
        return number if number is not None and number > 0 else None

    def text(self, key: str) -> str | None:
        """A text, None where absent or empty. Raises ConfigError for anything else."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value or None
        raise ConfigError(f"{printable(key)} is {_quoted(value)}, not a text", path=self.path)


def read_train_config(path: Path) -> TrainConfig:
    """Read one file. Raises ConfigError with the file, and the line where TOML gives it."""
    where = printable(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=where) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES:,} bytes: no configuration", path=where)
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError("not valid UTF-8", path=where, offset=error.start) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {printable(str(error))}", path=where) from None
    except (RecursionError, ValueError):
        raise ConfigError("not valid TOML", path=where) from None
    return TrainConfig(where, dict(_flat(document, "")))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Value]]:
    """Leaves by dotted key; lists, dates and what is nested deeper than sections are left out."""
    for key, value in table.items():
        if isinstance(value, dict) and not prefix:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, (str, int, float, bool)):
            yield f"{prefix}{key}", value


def _quoted(value: Value) -> str:
    return printable(repr(value)[:60])


_MARK_BYTES: Final = 1 << 16
_PAIR: Final = re.compile(r"(?:^|(?<=\s))([A-Za-z_]\w{0,60})=(\S*)")


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch settings of a run; ``switches`` are the job's variables as they took effect.

    ``arguments`` are those of the training program besides its configuration file,
    ``configuration`` the values that file and arguments make, by dotted key.
    """

    world_size: int | None = stated(Fields.count, "world_size")
    host: str = stated(Fields.text, "rank0_host", "host", empty=str)
    hosts: tuple[str, ...] = ()
    git_commit: str = stated(Fields.text, "git_commit", empty=str)
    job_id: str = stated(Fields.text, "slurm.job_id", "slurm.SLURM_JOB_ID", empty=str)
    started_utc: str = stated(Fields.text, "started_utc", empty=str)
    switches: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    configuration: Mapping[str, str] = stated(Fields.texts, "train_config", empty=dict)
    notes: tuple[Note, ...] = ()

    def is_on(self, switch: str) -> bool | None:
        """Whether a switch was on, None where it is not stated."""
        value = self.switches.get(switch)
        return None if value is None else value.strip().lower() not in ("", "0", "false", "no")


@dataclass(frozen=True, slots=True)
class Completion:
    """Mark that a run writes at its end; None where it does not state a value."""

    world_size: int | None = None
    tokens_per_s: float | None = None
    total_wall_s: float | None = None
    timestamp_utc: str = ""


def read_launch(path: Path, *, shown: str) -> Launch:
    """``launcher_metadata.json``. Raises TraceError where it is no JSON object."""
    fields = Fields(read_object(path, shown_path=shown))
    hosts = fields.raw("slurm.hosts")
    words = fields.raw("train_arguments")
    named = hosts.split() if isinstance(hosts, str) else hosts if isinstance(hosts, list) else []
    return Launch(
        **fields.read(Launch),
        hosts=tuple(str(host) for host in named[:100_000]),
        switches={**fields.texts("nccl_env"), **fields.texts("switches")},
        arguments=tuple(map(str, words)) if isinstance(words, list) else (),
        notes=tuple(fields.notes),
    )


def read_completion(path: Path, *, shown: str) -> Completion:
    """``RUN_COMPLETE.txt``, its pairs in one line or one a line. Raises TraceError unread."""
    try:
        with path.open("rb") as file:
            text = file.read(_MARK_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path=shown) from error
    pairs = dict(_PAIR.findall(text))
    world_size = finite(pairs.get("world_size"))
    return Completion(
        world_size=None if world_size is None or world_size < 0 else int(world_size),
        tokens_per_s=finite(pairs.get("tokens_per_sec")),
        total_wall_s=finite(pairs.get("total_wall_time_sec")),
        timestamp_utc=pairs.get("timestamp_utc", ""),
    )


@dataclass(frozen=True)
class StepLog:
    """Training steps in the order they were made; NaN and -1 where a step does not say.

    ``step`` int64, ``loss`` and ``time_s`` float64, ``tokens`` int64 of all ranks,
    ``optimizer_step`` int8: 1 and 0, all of one length.
    """

    step: I64
    loss: F64
    time_s: F64
    tokens: I64
    optimizer_step: npt.NDArray[np.int8]
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.step)


def read_step_log(path: Path, *, shown: str) -> StepLog:
    """The steps of a file; lines that cannot be used are noted, the first one by its number.

    Raises TraceError for a file that cannot be read.
    """
    text = read_bounded(path, shown=shown)
    reading = _Reading()
    for part in text.plain_parts:
        reading.take(part)
    return reading.log((*text.notes, *reading.notes(cut=not text.end.endswith("\n"))))


class _Reading:
    def __init__(self) -> None:
        self._rows: list[tuple[int, float, float, int, int]] = []
        self._lines = 0
        self._bad: list[tuple[int, str]] = []

    def take(self, part: str) -> None:
        decode = msgspec.json.decode
        for line in part.split("\n"):
            self._lines += 1
            if not line.strip():
                continue
            try:
                self._add(decode(line))
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                self._bad.append((self._lines, str(error).split(":")[0][:80]))

    def _add(self, record: Any) -> None:
        if not isinstance(record, Mapping):
            self._bad.append((self._lines, "not an object"))
            return
        step = finite(record.get("step"))
        if step is None or not 0 <= step < 1 << 62:
            self._bad.append((self._lines, "without a step"))
            return
        if record.get("phase", "train") != "train":
            return
        tokens = finite(record.get("tokens"))
        boundary = record.get("optimizer_step")
        self._rows.append(
            (
                int(step),
                finite_or_nan(record.get("loss")),
                finite_or_nan(record.get("step_time_sec")),
                -1 if tokens is None or not 0 <= tokens < 1 << 62 else int(tokens),
                int(boundary) if isinstance(boundary, bool) else -1,
            )
        )

    def notes(self, *, cut: bool) -> list[Note]:
        """Return notes on unusable lines; a last line without its end is cut off, not wrong."""
        found = list(self._bad)
        notes = []
        if cut and found and found[-1][0] == self._lines:
            found.pop()
            notes.append(Note("cut_line", f"line {self._lines} is cut off and left out"))
        if found:
            line, why = found[0]
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            message = f"line {line}{more} cannot be used: {why}"
            notes.append(Note("bad_line", message, count=len(found)))
        return notes

    def log(self, notes: tuple[Note, ...]) -> StepLog:
        columns = list(zip(*self._rows, strict=True)) or [(), (), (), (), ()]
        return StepLog(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.float64),
            np.array(columns[2], np.float64),
            np.array(columns[3], np.int64),
            np.array(columns[4], np.int8),
            notes,
        )


_GAP: Final = re.compile(r"\s{2,}")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[,'  .]\d{2,3})*|\d+")
_TIME: Final = re.compile(r"(\d{1,24}) ?ns")


@dataclass(frozen=True, slots=True)
class SummaryRange:
    """One range; ``instances`` as its printed row says, None where that is unknown."""

    name: str
    time_pct: float | None
    total_ns: int | None
    instances: int | None


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """The ranges of NVTX that took longest, and the texts they are from."""

    ranges: tuple[SummaryRange, ...]
    inputs: tuple[str, ...]
    notes: tuple[Note, ...] = ()


def read_profile_summary(path: Path, *, shown: str) -> ProfileSummary:
    """The summary. Raises TraceError where it is no JSON object."""
    fields = Fields(read_object(path, shown_path=shown))
    inputs = fields.raw("inputs")
    names = [str(name) for name in inputs] if isinstance(inputs, list) else []
    return ProfileSummary(tuple(_ranges(fields)), tuple(names), tuple(fields.notes))


def _ranges(fields: Fields) -> Iterator[SummaryRange]:
    rows = fields.raw("nvtx_top5")
    if rows is not None and not isinstance(rows, list):
        fields.note("nvtx_top5 is not a list")
        return
    for row in rows or []:
        if isinstance(row, Mapping) and isinstance(row.get("name"), str):
            time = _TIME.fullmatch(str(row.get("total_time", "")).strip())
            total_ns = None if time is None else int(time[1])
            yield SummaryRange(
                row["name"], finite(row.get("time_percent")), total_ns, _instances(row, total_ns)
            )


def _instances(row: Mapping[str, Any], total_ns: int | None) -> int | None:
    """The third cell of the printed row, if the first two are what the summary says they are."""
    cells = _GAP.split(str(row.get("raw", "")).strip())
    if len(cells) < 4 or not cells[-1].endswith(str(row["name"]).strip()):
        return None
    total, count = (_whole(cell) for cell in cells[1:3])
    return count if count is not None and total is not None and total == total_ns else None


def _whole(cell: str) -> int | None:
    """A whole number, its digits grouped in any way."""
    if not _GROUPED.fullmatch(cell):
        return None
    return int(re.sub(r"\D", "", cell))


HEADER: Final = re.compile(r"\bComm\. Op\s{2,}Message Size\s{2,}Count\b")
_BETWEEN: Final = re.compile(r"\s{2,}|(?<=\))\s(?=[A-Z])")
"""Names of columns: where one fills its width, a single blank is left before the next."""
_SIZE: Final = re.compile(r"\d[\d.,]*\s?(?:B|[KMGTP]i?B)")
_OPERATION: Final = re.compile(r"[A-Za-z_][\w. -]{1,60}")
_WAITED: Final = "Total straggler(ms)"
_MOST_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class CommsRow:
    """One operation of one message size; NaN where the table does not state a value.

    ``total_ms`` is the latency of all calls, waiting included; ``waited_ms`` the waiting for the
    last rank alone. Rates are as DeepSpeed prints them, in Gbit/s.
    """

    operation: str
    size: str
    count: int
    total_ms: float
    waited_ms: float
    rate_gbps: float
    busbw_gbps: float


def read_comms_summary(path: Path, *, shown: str) -> tuple[CommsRow, ...]:
    """Return the rows of the last summary of a log, () without one. Raises TraceError."""
    return comms_summary_of(read_bounded(path, shown=shown))


def comms_summary_of(text: BoundedText) -> tuple[CommsRow, ...]:
    """Return the rows of the last summary of a text, of the first rank that prints one."""
    if not any("Comm. Op" in part for part in text.plain_of_ansi()):
        return ()  # most logs: none of their lines is looked at
    rows: dict[tuple[str, str], dict[str, str]] = {}
    header: list[str] = []
    operation = ""
    printed_by: int | None = None
    for prefix, line in text.lines():
        found = HEADER.search(line)
        rank = text.prefixes.rank(prefix) if prefix else None
        if found is not None and printed_by is None:
            printed_by = rank
        if rank != printed_by and rank is not None:
            continue
        if found is not None:
            header = _BETWEEN.split(line[found.start() :].strip())
            if _WAITED not in header:
                rows = {}  # a later summary counts from the beginning
            operation = ""
        elif header and line.strip():
            cells = _GAP.split(line.strip())
            if _SIZE.fullmatch(cells[0]) and operation and len(cells) == len(header) - 1:
                values = dict(zip(header[1:], cells, strict=True))
                if len(rows) < _MOST_ROWS:
                    rows.setdefault((operation, cells[0]), {}).update(values)
            elif len(cells) == 1 and _OPERATION.fullmatch(cells[0]):
                operation = printable(cells[0])
            elif set(line.strip()) <= set("-_=") or line.startswith("Breakdown"):
                operation = ""
            else:
                header = []
    return tuple(_row(operation, size, values) for (operation, size), values in rows.items())


def _row(operation: str, size: str, values: Mapping[str, str]) -> CommsRow:
    waited = _number(values, _WAITED)
    total = _number(values, "Total Latency(ms)")
    if math.isnan(total):
        total = _number(values, "Total comm lat(ms)") + waited
    count = _number(values, "Count")
    return CommsRow(
        operation=operation,
        size=printable(size),
        count=0 if math.isnan(count) else int(count),
        total_ms=total,
        waited_ms=waited,
        rate_gbps=_number(values, "tput_avg (Gbps)"),
        busbw_gbps=_number(values, "busbw_avg (Gbps)"),
    )


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        number = float(values.get(name, "").replace(",", ""))
    except ValueError:
        return math.nan
    return number if 0 <= number < 2.0**53 else math.nan
