"""Declaration of a file format: how the parsers recognise, read and use files of the format.

A `Format` is declared in the ``__init__`` of the folder that reads the kind, and listed in
:mod:`ccltui.parsers.formats`. Declarations import no reader: they name its functions by `imported`.
Rules by keys, file name or text are made by the functions at the end.

The columns hold what metrics need of every event. What is shown of a single event at a time is
read from its file when it is needed, so that jobs of millions of events stay small.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from ccltui.parsers.columns import Group, RankTrace
    from ccltui.parsers.text.file_sample import FileSample

Size3 = tuple[int, int, int]
MAX_TEXT: Final = 2_000
"""Characters of a text that are kept."""


class EventRecord(Struct, frozen=True):
    """Fields of one event as its file states them; None and "" where it does not.

    Attributes:
        grid: blocks of the launch in three directions.
        block: threads of a block in three directions.
        registers: registers of a thread.
        static_shared_bytes: shared memory of a block that the program fixes.
        dynamic_shared_bytes: shared memory of a block that the launch requests.
        shared_bytes: all shared memory of a block.
        occupancy_pct: achieved occupancy as the profiler estimates it.
        input_shapes: shapes of the inputs of an operator, JSON.
        input_types: their data types, JSON.
        inputs: values of inputs that are no tensors, JSON.
        call_stack: Python frames, the innermost first.
        further: other fields by name, as text.
    """

    grid: Size3 | None = None
    block: Size3 | None = None
    registers: int | None = None
    static_shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    shared_bytes: int | None = None
    occupancy_pct: float | None = None
    input_shapes: str = ""
    input_types: str = ""
    inputs: str = ""
    call_stack: tuple[str, ...] = ()
    further: tuple[tuple[str, str], ...] = ()


class SoughtEvent(Struct, frozen=True):
    """An event by which its record is found in a file; times in ns as the file counts them.

    ``correlation`` is -1 where the event has none; ``device`` and ``stream`` are -1 off a device.
    """

    group: Group
    name: str
    start_ns: int
    dur_ns: int
    correlation: int
    device: int
    stream: int


def sought_event(trace: RankTrace, group: Group, row: int) -> SoughtEvent:
    """Return what identifies a row of an event group in the file of its trace.

    Raises:
        IndexError: there is no such row.
    """
    events = trace.group(group)
    if not 0 <= row < len(events):
        raise IndexError(row)
    track = int(events.track[row])
    on = trace.tracks[track] if 0 <= track < len(trace.tracks) else None
    return SoughtEvent(
        group,
        trace.text(int(events.name[row])),
        int(events.start_ns[row]) - trace.base_ns,
        int(events.dur_ns[row]),
        int(events.correlation[row]),
        -1 if on is None else on.device,
        -1 if on is None else on.stream,
    )


Source = Literal["torch", "nsys"]
"""Profiler whose files form a capture."""

EPOCH_TIMES_NS = 10**18
"""Times above this (2001) are since the epoch, not since a start of the machine."""

SOURCES: tuple[Source, ...] = ("torch", "nsys")
"""In order of preference, where a directory holds captures of both."""

Report = Callable[[int], None]
"""Called with the bytes of a file that have been read."""


class ReadOptions(TypedDict, total=False):
    """Keywords that every reader of a format takes.

    Attributes:
        shown: Path for messages; that of the file where it is absent.
        scratch: Directories to try in turn for what must be converted first, and for columns that
            are not in memory; else the temporary directory.
        progress: Called with the bytes of the file that have been read so far.
        cancelled: Asked from time to time; reading ends with CancelledError where it returns true.
    """

    shown: str
    scratch: Sequence[Path]
    progress: Report | None
    cancelled: Callable[[], bool] | None


class Companion(msgspec.Struct, frozen=True):
    """A file that adds to the columns of another: the execution trace of the same rank."""

    path: str
    real_path: str
    digest: str = ""  # as `FoundFile.digest`


class Priority(IntEnum):
    """Order in which rules are tried on a file; rules of equal priority in order of ``FORMATS``."""

    BINARY = 0  # magic bytes and database tables
    JSON_CONTENT = 10  # what a JSON document is by its structure
    JSON_KEYS = 11  # top-level keys of a JSON object
    JSON_NAME = 12  # the file name, where keys do not decide
    JSON_FRAGMENT = 13  # a document that is cut off or damaged before its events
    TEXT_BANNER = 20  # what a program prints around its tables
    YAML = 21
    TEXT_CONTENT = 22
    TEXT_NAME = 23
    TEXT_LINES = 24  # single lines, which other texts may quote
    SUFFIX = 30  # the suffix of the file name alone


class RankInfo(Struct, frozen=True):
    """Rank, world size and times that a piece of a file states; None where it does not.

    Attributes:
        rank: rank of the file.
        world_size: number of ranks of the job.
        base_ns: time since the epoch that the times of events count from, in ns.
        first_us: earliest time of an event in the piece, in µs after the base.
        last_us: latest time of an event in the piece, in µs after the base.
    """

    rank: int | None = None
    world_size: int | None = None
    base_ns: int | None = None
    first_us: int | None = None
    last_us: int | None = None

    def completed(self, other: RankInfo) -> RankInfo:
        """Return this with what another piece of the same file states beyond it."""
        earliest = [us for us in (self.first_us, other.first_us) if us is not None]
        latest = [us for us in (self.last_us, other.last_us) if us is not None]
        stated = self if self.rank is not None else other
        return RankInfo(
            rank=stated.rank,
            world_size=self.world_size if stated.world_size is None else stated.world_size,
            base_ns=other.base_ns if self.base_ns is None else self.base_ns,
            first_us=min(earliest, default=None),
            last_us=max(latest, default=None),
        )

    @property
    def start_ns(self) -> int | None:
        """Earliest time since the epoch in ns, None where the file has no such time."""
        return self._since_epoch(self.first_us)

    @property
    def end_ns(self) -> int | None:
        """Latest time since the epoch in ns, None where the file has no such time."""
        return self._since_epoch(self.last_us)

    def _since_epoch(self, us: int | None) -> int | None:
        if us is None:
            return None
        ns = (self.base_ns or 0) + us * 1000
        return ns if ns > EPOCH_TIMES_NS else None


class Match(Struct, frozen=True):
    """A rule that recognised a file.

    ``problem`` is one sentence that says why the file cannot be used, None where it can.
    ``undecided``: a longer piece of the file may give a better match.
    """

    problem: str | None = None
    info: RankInfo = field(default_factory=RankInfo)
    undecided: bool = False


class Rule(Struct, frozen=True):
    """A test for one format; ``test`` returns None where the file is not of it."""

    priority: Priority
    test: Callable[[FileSample], Match | None]


class Reader(Protocol):
    """Reads all ranks of a file into columns; the keywords are those of `ReadOptions`.

    Raises TraceError where the file gives nothing, and CancelledError.
    """

    def __call__(
        self,
        path: Path,
        *,
        shown: str,
        scratch: Sequence[Path] = (),
        progress: Report | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Sequence[RankTrace]:
        """Return one trace for each rank of the file."""


class PreviewReader(Protocol):
    """Reads the beginning of a file; None where that shows nothing."""

    def __call__(self, path: Path, *, shown: str) -> RankTrace | None:
        """Return the events at the beginning, ``read_share`` below 1."""


class RecordReader(Protocol):
    """Reads all that a file states about one event."""

    def __call__(self, path: Path, sought: SoughtEvent, *, shown: str) -> EventRecord:
        """Return the record; raises TraceError where the file does not contain the event."""


class Converter(Protocol):
    """Converts a file to an sqlite export of nsys."""

    def __call__(self, path: Path, target: Path, *, shown: str) -> Path:
        """Write ``target`` and return the file to read."""


class Format(Struct, frozen=True, kw_only=True, eq=False):
    """One kind of file.

    Attributes:
        kind: Unique name; `FoundFile.kind`.
        description: What such a file is, in a line.
        sniff: Rules that recognise it.
        source: Captures that its files form; None for files that are no trace.
        profiler: Profiler that wrote it, None where neither PyTorch nor nsys did.
        read: Reader of its columns, None for files that are no trace.
        version: Raised whenever the same bytes would give other columns, which makes stored
            columns invalid.
        family: `SourceFile.format` of the columns that ``read`` returns.
        several_ranks: Whether one file may hold several ranks.
        rank_in_name: Whether a number in the file name can be its rank.
        reads_damaged: Whether ``read`` is used although a rule stated a problem, because it
            repairs or reports that.
        compares_content: Whether files of equal content count once.
        step_marks: Convention by which its annotations mark steps, besides those of PyTorch.
        preview: Reader of the beginning of large files.
        read_record: Reader of all that a file states about one event; the first format of a
            ``family`` reads those of all of them.
        add_companion: Adds what a companion file holds to a trace.
        completes: Captures whose traces it is a companion of.
        exported_as: Kind of the export of the same recording that replaces it.
        gives_way: Other traces that a file of it repeats: those of the same rank in its folder, or
            all that were found; "" for none.
        info_at_end: Rank and world size from the last bytes of the text.
        is_finished: Whether the last bytes of the text are those of a file fully written.
        unfinished: Why content of the file is outside it, None where all is inside.
        has_kernels: Whether the file of a path records computation on a device, None where a look
            at its beginning does not decide it.
        memory_form: Form for the estimate of memory, where compression does not decide it.
        reports: What reports of ``nsys stats`` are taken from: printed text, or rows of tables.
        to_sqlite: Converter, where the rows can only be read from an export.
        card_name: Its name in the list of trace kinds of a workload card, "" without one.
        has_own_metrics: Whether metrics answer from such files without any trace.
        read_by_line: Whether it is text that is read line by line, so that time grows with size.
        when_unreadable: What a metric reports where only such files are found and none can be
            read; ``{files}`` stands for their paths.
        streams_are_serial: False where work on one stream of the device may run side by side.
    """

    kind: str
    description: str
    sniff: tuple[Rule, ...]
    source: Source | None = None
    profiler: Source | None = None
    read: Reader | None = None
    version: int = 0
    family: str = ""
    several_ranks: bool = False
    rank_in_name: bool = False
    reads_damaged: bool = False
    compares_content: bool = False
    step_marks: Literal["", "nvtx", "xla"] = ""
    preview: PreviewReader | None = None
    read_record: RecordReader | None = None
    add_companion: Callable[[RankTrace, Companion], RankTrace] | None = None
    completes: Source | None = None
    exported_as: str = ""
    gives_way: Literal["", "folder", "all"] = ""
    info_at_end: Callable[[bytes], RankInfo] | None = None
    is_finished: Callable[[bytes], bool] | None = None
    unfinished: Callable[[str], str | None] | None = None
    has_kernels: Callable[[str], bool | None] | None = None
    memory_form: str = ""
    reports: Literal["", "text", "rows"] = ""
    to_sqlite: Converter | None = None
    card_name: str = ""
    has_own_metrics: bool = False
    read_by_line: bool = False
    when_unreadable: str = ""
    streams_are_serial: bool = True

    @property
    def is_trace(self) -> bool:
        """Whether its files hold events with times."""
        return self.read is not None

    @property
    def has_one_rank(self) -> bool:
        """Whether each file is the trace of one rank."""
        return self.is_trace and not self.several_ranks


def imported(module: str, function: str) -> Callable[..., Any]:
    """Return a function of a reader that is imported when it is first called.

    Declarations name functions in this way, because readers need numpy and take long to import.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(module), function)(*arguments, **options)

    call.__qualname__ = f"{module}:{function}"
    return call


UNKNOWN = Format(kind="unknown", description="nothing that is recognised", sniff=())
"""Format of files that no rule recognises."""


def json_keys(*keys: str) -> Rule:
    """Match a JSON object that has all of the top-level ``keys``."""
    wanted = frozenset(keys)

    def test(sample: FileSample) -> Match | None:
        return Match() if sample.json is not None and wanted <= sample.json.object_keys else None

    return Rule(Priority.JSON_KEYS, test)


def json_name(*parts: str) -> Rule:
    """Match a JSON object whose file name contains one of ``parts``."""

    def test(sample: FileSample) -> Match | None:
        document = sample.json
        if document is None or not document.is_plain_object or document.shape.state == "broken":
            return None
        return Match() if any(part in sample.lower_name for part in parts) else None

    return Rule(Priority.JSON_NAME, test)


def text_search(
    pattern: re.Pattern[str],
    priority: Priority = Priority.TEXT_CONTENT,
    *,
    words: tuple[str, ...],
) -> Rule:
    """Match a text, other than YAML, in whose beginning ``pattern`` occurs.

    ``words`` are texts of which every match contains one. Finding none of them takes a hundredth
    of the time of a search, and most texts are foreign.
    """

    def test(sample: FileSample) -> Match | None:
        text = sample.prose
        if text is None or not any(word in text for word in words):
            return None
        return Match() if pattern.search(text) else None

    return Rule(priority, test)


def text_start(pattern: re.Pattern[str], longest: int) -> Rule:
    """Match a text whose first ``longest`` characters begin with ``pattern``."""

    def test(sample: FileSample) -> Match | None:
        text = sample.prose
        return Match() if text is not None and pattern.match(text[:longest].lstrip()) else None

    return Rule(Priority.TEXT_CONTENT, test)


def text_stem(stem: str) -> Rule:
    """Match a text whose file name without suffix is ``stem``."""

    def test(sample: FileSample) -> Match | None:
        is_named = sample.lower_name.rpartition(".")[0] == stem
        return Match() if sample.prose is not None and is_named else None

    return Rule(Priority.TEXT_NAME, test)


def binary_suffix(*suffixes: str, problem: str) -> Rule:
    """Match bytes that are no text by the end of the file name; ``problem`` is why unused."""

    def test(sample: FileSample) -> Match | None:
        is_named = sample.text is None and sample.lower_name.endswith(suffixes)
        return Match(problem) if is_named else None

    return Rule(Priority.SUFFIX, test)
