"""All formats: those built in and those of other packages, by kind, and reading a file of any.

Formats of other packages are checked when they are loaded, and contained when they are used.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from msgspec import Struct, structs

from ccltui.parsers.cluster import (
    CLUSTER_BENCHMARK,
    GPU_TOPOLOGY,
    IB_STATUS,
    NCCL_LOG,
    NCCL_RAS,
    NCCL_TESTS,
    NCCL_TESTS_JSON,
    NCCL_TOPOLOGY,
)
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.format import (
    SOURCES,
    UNKNOWN,
    Companion,
    Format,
    Match,
    ReadOptions,
    Rule,
)
from ccltui.parsers.inspector import NCCL_INSPECTOR, NCCL_INSPECTOR_PROM
from ccltui.parsers.kineto import EXECUTION_TRACE, KINETO, XLA_TRACE
from ccltui.parsers.nsys import NSYS_REPORT, NSYS_SQLITE, NSYS_TABLES, NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.pftrace import PERFETTO_EXPORT, PFTRACE
from ccltui.parsers.plug_ins import (
    FORMATS as FORMAT_PLUG_INS,
)
from ccltui.parsers.plug_ins import (
    PlugIn,
    Skipped,
    installed,
    loaded,
    reason_of,
)
from ccltui.parsers.rocm import ROCPD, ROCPROF_TABLE, ROCPROF_TRACE
from ccltui.parsers.runs import (
    LAUNCHER_METADATA,
    PROFILE_SUMMARY,
    RUN_COMPLETE,
    RUN_METADATA,
    STEP_LOG,
    TRAINING_LOG,
    TRAINING_METRICS,
    WATCHDOG_LOG,
)
from ccltui.parsers.side import (
    EXPERT_STATS,
    MEMORY_SNAPSHOT,
    NCCL_PROFILER,
    NVPROF_TABLE,
    SERVING_RESULTS,
    SUMMED_TABLE,
    TIMING_STATS,
    WORKLOAD_CARD,
)
from ccltui.parsers.side.unread_files import (
    ARCHIVE,
    LOG,
    OTHER_TRACE,
    PICKLE,
    TEXT,
)

if TYPE_CHECKING:
    from ccltui.parsers.columns import Group, RankTrace
    from ccltui.parsers.format import EventRecord
    from ccltui.parsers.text.file_sample import FileSample


_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_CALLED: Final = (
    *("read", "preview", "read_record", "add_companion", "info_at_end", "is_finished"),
    *("unfinished", "to_sqlite"),
)
"""Functions of a format besides its rules."""


class PluggedFormats(Struct, frozen=True):
    """Formats that are used, entries that are not, and rules that failed since."""

    formats: tuple[Format, ...]
    skipped: tuple[Skipped, ...]
    failed: dict[str, Skipped]

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each entry that is not used, and for each format with a failed rule."""
        return tuple(one.text for one in (*self.skipped, *self.failed.values()))


def plugged_formats(built_in: Sequence[Format]) -> PluggedFormats:
    """Load the formats of other packages, besides those of ``built_in``."""
    return _plugged(tuple(built_in), installed(FORMAT_PLUG_INS))


@cache
def _plugged(built_in: tuple[Format, ...], entries: tuple[PlugIn, ...]) -> PluggedFormats:
    used: list[Format] = []
    skipped: list[Skipped] = []
    failed: dict[str, Skipped] = {}
    for entry in entries:
        found = loaded(entry)
        if isinstance(found, Skipped):
            skipped.append(found)
        elif problem := _problem(found, (*built_in, *used)):
            skipped.append(entry.skipped(f"{entry.value} {problem}"))
        else:
            used.append(_contained(found, entry, failed))
    return PluggedFormats(tuple(used), tuple(skipped), failed)


def _problem(found: object, others: Sequence[Format]) -> str:
    """Return why an object cannot be used as a format; "" where it can."""
    if not isinstance(found, Format):
        return f"is a {type(found).__name__}, not a Format"
    if not isinstance(found.kind, str) or not _KIND.fullmatch(found.kind):
        return f"has the kind {found.kind!r}: letters a-z, digits and _ are allowed"
    if found.kind in {UNKNOWN.kind, *(one.kind for one in others)}:
        return f"has the kind {found.kind!r}, which is already taken"
    if not found.sniff or not all(isinstance(rule, Rule) for rule in found.sniff):
        return "has no rules that recognise its files"
    if found.read is None:
        return ""
    if found.source not in SOURCES or found.version < 1 or not found.family:
        return f"has a reader, so it needs a source ({', '.join(SOURCES)}), version and family"
    if found.family in {one.family for one in others}:
        return f"has the family {found.family!r}, which is already taken"
    return ""


def _contained(found: Format, entry: PlugIn, failed: dict[str, Skipped]) -> Format:
    """Return a format whose functions raise TraceError alone, and whose rules raise nothing."""
    called = {name: getattr(found, name) for name in _CALLED}
    changes: dict[str, Any] = {
        name: _named_errors(function, entry)
        for name, function in called.items()
        if function is not None
    }
    # Stored columns are found by file and version: neither those of another format of the same file
    # nor those of an older release of the package may be taken for these.
    identity = f"{found.kind} {found.version} {entry.distribution}"
    changes["version"] = zlib.crc32(identity.encode()) if found.read else 0
    rules = tuple(Rule(rule.priority, _silent(rule.test, entry, failed)) for rule in found.sniff)
    return structs.replace(found, sniff=rules, **changes)


def _named_errors(function: Callable[..., Any], entry: PlugIn) -> Callable[..., Any]:
    """Return a function whose unforeseen errors name the distribution; others stay."""

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (TraceError, OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            shown = options.get("shown")
            why = f"the format plug-in {entry.name} of {entry.distribution} failed: "
            raise TraceError(why + reason_of(error), path=shown) from error

    return call


def _silent(
    test: Callable[[FileSample], Match | None], entry: PlugIn, failed: dict[str, Skipped]
) -> Callable[[FileSample], Match | None]:
    """Return a rule that matches nothing where it fails: other formats still have their files."""

    def matched(sample: FileSample) -> Match | None:
        try:
            found = test(sample)
            if found is None or isinstance(found, Match):
                return found
            raise TypeError(f"a rule returned a {type(found).__name__}, not a Match or None")
        except (Exception, SystemExit) as error:
            failed[entry.name] = entry.skipped(reason_of(error))
            return None

    return matched


FORMATS: tuple[Format, ...] = (
    XLA_TRACE,  # before Kineto, whose rules match its JSON too, and other profiles with hosts
    OTHER_TRACE,  # before Kineto, whose rules match its JSON too
    NCCL_PROFILER,  # likewise
    KINETO,
    PERFETTO_EXPORT,  # before PFTRACE, whose rule matches it too
    PFTRACE,
    NSYS_SQLITE,
    NSYS_TABLES,
    NSYS_REPORT,
    NSYS_TEXT_TRACE,  # before the text of nsys in general, whose rules match it too
    NSYS_TEXT,
    ROCPROF_TRACE,
    ROCPROF_TABLE,
    ROCPD,
    EXECUTION_TRACE,
    WORKLOAD_CARD,
    CLUSTER_BENCHMARK,
    SERVING_RESULTS,
    PROFILE_SUMMARY,
    EXPERT_STATS,
    TIMING_STATS,
    SUMMED_TABLE,
    TRAINING_METRICS,
    STEP_LOG,
    LAUNCHER_METADATA,
    RUN_METADATA,
    RUN_COMPLETE,
    NCCL_TOPOLOGY,
    IB_STATUS,
    NCCL_TESTS,
    NCCL_TESTS_JSON,
    GPU_TOPOLOGY,
    NCCL_RAS,
    TRAINING_LOG,
    WATCHDOG_LOG,
    NCCL_LOG,
    NVPROF_TABLE,  # behind the logs in which such a table may be
    ARCHIVE,
    NCCL_INSPECTOR,
    NCCL_INSPECTOR_PROM,
    FLIGHT_RECORD,
    MEMORY_SNAPSHOT,
    PICKLE,
    LOG,
    TEXT,
)
"""The built-in formats; of rules with equal priority the first matches."""


_BY_KIND = {one.kind: one for one in (*reversed(FORMATS), UNKNOWN)}
_BY_FAMILY = {one.family: one for one in reversed(FORMATS)}


def all_formats() -> tuple[Format, ...]:
    """Return every format that files are recognised as: the built-in ones, then plug-ins."""
    return (*FORMATS, *plugged_formats(FORMATS).formats)


def plug_in_problems() -> tuple[str, ...]:
    """Return one line for each format of another package that is not used, or that failed."""
    return plugged_formats(FORMATS).problems


def format_of(kind: str) -> Format:
    """Return the format of a kind, `UNKNOWN` where none is listed."""
    found = _BY_KIND.get(kind)
    return _first(lambda one: one.kind == kind) if found is None else found


def format_of_trace(trace: RankTrace) -> Format:
    """Return the first format whose reader gives columns as those of a trace."""
    family = trace.source.format
    found = _BY_FAMILY.get(family)
    return _first(lambda one: one.family == family) if found is None else found


def _first(is_meant: Callable[[Format], bool]) -> Format:
    """Return the first format that is meant; plug-ins are loaded where no built-in one is."""
    found = next(filter(is_meant, FORMATS), None)
    return next(filter(is_meant, all_formats()), UNKNOWN) if found is None else found


def read_file(
    path: Path, kind: str, *, companion: Companion | None = None, **options: Unpack[ReadOptions]
) -> Sequence[RankTrace]:
    """Return the columns of one file, one trace for each rank in it.

    Columns of nsys stay on disk and are read on each access: see `in_memory`.

    Args:
        path: The file to open.
        kind: Its kind, that of a format with a reader.
        companion: A file that adds what this one lacks.
        options: Keywords of the reader.

    Raises:
        TraceError: The file gives nothing, for whatever reason.
        CancelledError: ``cancelled`` returned true.
    """
    from ccltui.parsers.device_times import BelievedTraces  # noqa: PLC0415  (as below)

    found = format_of(kind)
    if found.read is None:
        raise ValueError(f"no reader for {kind}")
    given: ReadOptions = {"shown": str(path), "scratch": (), "progress": None, "cancelled": None}
    given.update(options)
    with contained(given["shown"]):
        traces = found.read(path, **given)
        if companion is not None and found.add_companion is not None:
            traces = tuple(found.add_companion(trace, companion) for trace in traces)
        return BelievedTraces(traces, streams_are_serial=found.streams_are_serial)


def read_event_record(trace: RankTrace, group: Group, row: int) -> EventRecord:
    """Read the record of one event from the file of its trace.

    Raises:
        TraceError: The file cannot be read, has changed, or does not contain the event.
        IndexError: There is no such row.
    """
    from ccltui.parsers.format import sought_event  # noqa: PLC0415  (few commands need it)

    sought = sought_event(trace, group, row)
    reader, source = format_of_trace(trace).read_record, trace.source
    if reader is None or source.container:
        raise TraceError("its format holds no record of single events", path=source.path)
    with contained(source.path):
        return reader(Path(source.real_path), sought, shown=source.path)


def in_memory(trace: RankTrace) -> RankTrace:
    """Return the same rank with all of its columns read."""
    from ccltui.parsers.columns import Events  # noqa: PLC0415  (formats are needed before numpy)

    names = [name for name, _ in (*Events.COLUMNS, *Events.SPARSE)]
    events = {
        group: Events(**{name: getattr(rows, name) for name in names})
        for group, rows in trace.events.items()
    }
    return structs.replace(trace, events=events)
