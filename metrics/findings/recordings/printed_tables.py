"""Findings on printed totals: of ``nsys stats``, rocprof, nvprof and PyTorch's profiler.

``nsys stats``, rocprof and nvprof print kernels, ranges and calls by share,
``prof.key_averages().table()`` kernels and operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Answer, Finding, Kind, Where
from ccltui.metrics.hangs.find_hang import LOGS
from ccltui.metrics.model.classify import GENERIC
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.view.words import sentence, short_name
from ccltui.parsers.array_types import I64
from ccltui.parsers.communication_kernels import communication_kernel
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.nsys import NSYS_TEXT
from ccltui.parsers.nsys.typed_table import NumberColumn
from ccltui.parsers.numbers import counted, duration, percent, percent_cell, time_text
from ccltui.parsers.safe_text import listed
from ccltui.parsers.side import NVPROF_TABLE, SUMMED_TABLE
from ccltui.parsers.side.printed_tables import (
    MARK,
    ProfilerTable,
    SummedTables,
    TableRow,
    nvprof_tables,
    read_rocprof,
    read_tables,
)
from ccltui.parsers.text.file_sample import read_bounded

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.nsys.typed_table import Section


class Rule(Struct, frozen=True):
    """What the rows of a rule are, what they do, and what to do about them."""

    kind: Kind
    rows: str
    does: str
    do: str


RULES: Final = {
    "cuda_memcpy_async": Rule(
        "copies",
        "asynchronous copy of pageable memory|asynchronous copies of pageable memory",
        "run synchronously, for",
        "Pin the host's memory (pin_memory=True, cudaMallocHost).",
    ),
    "cuda_memcpy_sync": Rule(
        "copies",
        "synchronous copy|synchronous copies",
        "block the host for",
        "Copy with non_blocking=True (cudaMemcpyAsync) from pinned memory.",
    ),
    "cuda_memset_sync": Rule(
        "copies",
        "synchronous memset|synchronous memsets",
        "block the host for",
        "Use cudaMemsetAsync.",
    ),
    "cuda_api_sync": Rule(
        "host_synchronisation",
        "synchronising call|synchronising calls",
        "block the host for",
        "Avoid calls that wait for the device: .item(), .cpu(), torch.cuda.synchronize().",
    ),
    "gpu_gaps": Rule(
        "idle_unknown",
        "gap of the device|gaps of the device",
        "last",
        "Look at what the host does in the gaps: mark its work with NVTX and record it.",
    ),
    "gpu_time_util": Rule(
        "idle_unknown",
        "stretch in which the device is little used|stretches in which the device is little used",
        "last",
        "Look at what the host does in them: mark its work with NVTX and record it.",
    ),
}
"""Rules whose rows state when each began and how long it took."""
_NO_DATA: Final = "does not contain"
_NAMED: Final = ("API Name", "Name", "Operation")


def rule_findings(sections: Sequence[Section]) -> Iterator[Finding]:
    """Yield a finding for each rule with rows, the one with most time first."""
    found = [one for section in sections if (one := _finding(section)) is not None]
    yield from sorted(found, key=lambda one: -(one.cost_ms or 0.0))


def nothing_found(sections: Sequence[Section]) -> Finding:
    """Return the finding that no rule has a row; rules without data say nothing."""
    ran = sum(_NO_DATA not in (section.absent or "") for section in sections)
    text = f"{counted(ran, 'rule')} of nsys analyze found no problem"
    return Finding(
        kind="nothing",
        text=sentence(text if ran else "the rules of nsys analyze had no data to look at"),
        sure=Sure(what="high"),
        do="To see who waits for whom, when and why, export the times: nsys export -t sqlite.",
    )


def _finding(section: Section) -> Finding | None:
    rule = RULES[section.report]
    events = _events(section)
    if events is None:
        return None
    start_ns, dur_ns, rows = events
    whole_ns = Intervals.of(start_ns, start_ns + dur_ns).total_ns
    one, several = rule.rows.split("|")
    longest = int(np.argmax(dur_ns))
    named = next((column for name in _NAMED if (column := section.column(name))), None)
    name = f" ({named.cell(int(rows[longest]))})" if named is not None else ""
    does = rule.does if len(rows) > 1 else _SINGULAR[rule.does]
    return Finding(
        kind=rule.kind,
        text=sentence(
            f"{counted(len(rows), one, several)} {does} {duration(whole_ns)}"
            f"{' in all' if len(rows) > 1 else ''} (nsys analyze)"
        ),
        more=sentence(
            f"the longest{name} takes {duration(int(dur_ns[longest]))} and begins "
            f"{duration(int(start_ns[longest]))} after the start of the recording"
        ),
        cost_ms=whole_ns / 1e6,
        saves_why="rules list single events, which do not show what else ran at the same time",
        sure=Sure(what="high"),
        do=rule.do,
    )


_SINGULAR: Final = {
    "run synchronously, for": "runs synchronously, for",
    "block the host for": "blocks the host for",
    "last": "lasts",
}


def _events(section: Section) -> tuple[I64, I64, I64] | None:
    """Return starts, durations (int64 ns) and row numbers of the rows that state both."""
    start, dur = section.column("Start"), section.column("Duration")
    if not isinstance(start, NumberColumn) or not isinstance(dur, NumberColumn):
        return None
    if not start.unit or not dur.unit:
        return None
    begin, length = start.ns(), dur.ns()
    rows = np.flatnonzero((begin >= 0) & (length >= 0))
    return (begin[rows], length[rows], rows) if len(rows) else None


_TABLES: Final = {
    "cuda_gpu_kern_sum": "kernels",
    "nvtx_sum": "ranges",
    "nvtx_pushpop_sum": "ranges",
    "cuda_api_sum": "calls",
}
"""Reports with totals that are quoted, and what their rows are."""
_NSYS: Final = "nsys stats"
_DO: Final = (
    "To see who waits for whom, when and why, print or export times: nsys stats -r cuda_gpu_trace, "
    "or nsys export -t sqlite."
)
_DO_OF: Final[dict[str, str]] = {
    _NSYS: _DO,
    "rocprof": "To see who waits for whom, when and why, record times on every rank: rocprofv3 "
    "--kernel-trace --hip-trace --output-format csv.",
    "nvprof": "To see who waits for whom, when and why, record times with nsys, which replaces "
    "nvprof: nsys profile -t cuda,nvtx, then nsys export -t sqlite.",
}
"""What to do by the tool whose totals they are."""
_CANNOT: Final = (
    "Totals do not show when anything ran, so waiting, overlap and single steps cannot be seen."
)
_RULES_CANNOT: Final = (
    "Rules of nsys analyze list single events: how much of the time is lost cannot be seen."
)
_SHOWN: Final = 3
_ALL: Final = 0.9995
"""Share that prints as 100.0 %."""


_WHOLE: Final = 0.98
"""Sum of the printed shares from which no row is taken to be missing: each is rounded to 0.1 %, so
that the many small ones of a long table may be printed as 0.0."""


class Totals:
    """Total times by name of one kind of rows of one text.

    Attributes:
        whole_ns: Sum over all rows, those included that the text leaves out.
        is_cut: Whether rows are missing: the printed shares add up to less than all.
        tool: The tool that printed them.
    """

    def __init__(
        self, names: Sequence[str], total: I64, calls: I64, printed: float, tool: str = _NSYS
    ) -> None:
        order = np.argsort(-total, kind="stable")
        self.tool = tool
        self.names = [names[row] for row in order.tolist()]
        self.total_ns = total[order]
        self.calls = calls[order]
        listed_ns = int(self.total_ns.sum())
        self.is_cut = 0.0 < printed < _WHOLE
        self.whole_ns = round(listed_ns / printed) if self.is_cut else listed_ns

    def share(self, row: int) -> float:
        """Share of a row of the sum."""
        return int(self.total_ns[row]) / self.whole_ns if self.whole_ns else 0.0

    def by_title(self) -> list[tuple[str, float]]:
        """Titles of rows with their shares, the largest first; rows of one title are one."""
        found: dict[str, float] = {}
        for row, name in enumerate(self.names):
            title = _title(name)
            found[title] = found.get(title, 0.0) + self.share(row)
        return sorted(found.items(), key=lambda item: -item[1])

    def largest(self) -> str:
        """The three largest titles with their shares, "" where there is one alone."""
        rows = self.by_title()
        if len(rows) == 1:
            return ""
        return "; ".join(f"{title} {percent_cell(share)}" for title, share in rows[:_SHOWN])


def _title(name: str) -> str:
    """Return the name of a row for a sentence.

    Kernels of libraries of templates have one bare name: what tells them apart is the argument.
    """
    kernel = communication_kernel(name)
    if kernel is not None and kernel.operation != GENERIC:
        return f"{kernel.operation} ({kernel.library})"
    bare = bare_name(name.lstrip(":"))
    argument = name.partition("<")[2].partition(",")[0].partition(">")[0].strip()
    is_generic = bare.endswith("::Kernel2") or bare.endswith("::Kernel")
    return short_name(argument if is_generic and argument else bare)


class Unread(Struct, frozen=True):
    """Why a text of a tool cannot be read."""

    tool: str
    reason: str


class Texts:
    """What the printed texts of a directory hold.

    Attributes:
        totals: Path and totals by kind of each recording that lists anything.
        rules: Sections of rules of nsys analyze.
        failed: Texts that cannot be read.
        silent: Tool and path of texts that list nothing which is quoted.
        notes: What is not counted, a sentence each.
    """

    def __init__(self, view: View) -> None:
        self.totals: list[tuple[str, dict[str, Totals]]] = []
        self.rules: list[Section] = []
        self.failed: list[Unread] = []
        self.silent: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self._add_nsys(view)
        self._add_rocprof(view)
        in_logs = _in_logs(view)
        self.notes += in_logs.notes
        self.failed += [Unread("nvprof", reason) for reason in in_logs.failed]
        for path, tables in in_logs.summed:
            self._add_summed("nvprof", path, tables, {})

    def _add_nsys(self, view: View) -> None:
        from ccltui.parsers.nsys.stats_text import (  # noqa: PLC0415  (few have any)
            read_stats_text,
        )

        for file in view.job.discovery.files_of(NSYS_TEXT):
            try:
                text = read_stats_text(Path(file.real_path), shown=file.path)
            except TraceError as error:
                self.failed.append(Unread(_NSYS, str(error)))
                continue
            self.rules += [section for section in text.sections if section.report in RULES]
            found: dict[str, Totals] = {}
            for section in text.tables:
                kind = _TABLES.get(section.report)
                if kind is not None and kind not in found and _has_times(section):
                    found[kind] = Totals(*_columns(section), _printed_share(section))
            if held := {kind: one for kind, one in found.items() if one.whole_ns}:
                self.totals.append((file.path, held))

    def _add_rocprof(self, view: View) -> None:
        """Add the tables of rocprof, those of one recording together."""
        recordings: dict[str, dict[str, Totals]] = {}
        for file in _within(view.job.discovery.files_of(SUMMED_TABLE), "rocprof", self.notes):
            try:
                with contained(file.path):
                    tables = read_rocprof(Path(file.real_path), shown=file.path)
            except TraceError as error:
                self.failed.append(Unread("rocprof", str(error)))
                continue
            of_recording = recordings.setdefault(_TABLE_OF.sub("", file.path), {})
            self._add_summed("rocprof", file.path, tables, of_recording)

    def _add_summed(
        self, tool: str, path: str, tables: SummedTables, of_recording: dict[str, Totals]
    ) -> None:
        """Add the tables of one file to those of its recording, the larger of each kind."""
        self.notes += [f"Not all of {path} is counted: {note}." for note in tables.notes]
        is_new = not of_recording
        for rows in tables.tables:
            total, calls = np.array(rows.total_ns, np.int64), np.array(rows.calls, np.int64)
            one = Totals(rows.names, total, calls, rows.share, rows.tool)
            held = of_recording.get(rows.what)
            if one.whole_ns and (held is None or held.whole_ns < one.whole_ns):
                of_recording[rows.what] = one
        if not of_recording:
            self.silent.append((tool, path))
        elif is_new:
            self.totals.append((path, of_recording))


def _within(files: Sequence[FoundFile], tool: str, notes: list[str]) -> Sequence[FoundFile]:
    """Return the first files of a tool up to a number of bytes; add to ``notes`` how many not."""
    read = (min(file.size_bytes, _MOST_BYTES) for file in files)  # of a longer one both ends
    number = sum(held <= _MOST_SUMMED_BYTES for held in accumulate(read))
    if left := len(files) - number:
        notes.append(
            f"{left:,} of {counted(len(files), 'file')} with totals of {tool} "
            f"{'is' if left == 1 else 'are'} not read: together they are too large."
        )
    return files[:number]


_MOST_SUMMED_BYTES: Final = 1 << 28
"""Of all files of one tool: a table has kilobytes, so that those of any job are read."""
_TABLE_OF: Final = re.compile(
    r"[._]?(?:(?:kernel|hip|hip_api|hsa|hsa_api|memory_copy|copy|marker_api|rccl_api|domain)_)?"
    r"stats\.csv(?:\.gz|\.zst)?$"
)
"""What rocprof adds to the name of a recording for each of its tables."""


def _texts(view: View) -> Texts:
    return view.remember(Texts, lambda: Texts(view))


def totals_answer(view: View) -> Answer | None:
    """Return the findings on printed totals, None where there is no table of them.

    Of several texts the one with most kernel time is described.
    """
    found = _texts(view)
    texts, rules = found.totals, found.rules
    of_rules = tuple(rule_findings(rules))
    not_read = [*(f"Not read: {one.reason}." for one in found.failed), *found.notes]
    if not texts and (of_rules or rules):
        findings = of_rules or (nothing_found(rules),)
        return Answer(recording="totals", findings=findings, unknown=(_RULES_CANNOT, *not_read))
    if not texts:
        return _unreadable(found) if found.failed else None
    texts = sorted(texts, key=lambda one: -max(rows.whole_ns for rows in one[1].values()))
    with_kernels = [one for one in texts if "kernels" in one[1]]
    with_kernels.sort(key=lambda one: -one[1]["kernels"].whole_ns)
    path, main = (with_kernels or texts)[0]
    described = [one for one in (_ranges(main), _kernels(main), _calls(main)) if one]
    unknown = [_CANNOT, *not_read]
    if any(rows.is_cut for rows in main.values()):
        unknown.append("The text leaves out some rows; its shares are of all rows.")
    if len(texts) > 1:
        tools = listed(sorted({rows.tool for _, one in texts for rows in one.values()}), _SHOWN)
        others = " ccltui stats prints all of them." if tools == _NSYS else ""
        unknown.append(
            f"{counted(len(texts), 'text')} of {tools} were found; {path} is "
            f"described, the one with the most kernel time.{others}"
        )
    return Answer(recording="totals", findings=(*described, *of_rules), unknown=tuple(unknown))


def _unreadable(found: Texts) -> Answer:
    """Return the answer on texts of which none can be read."""
    tool, reason = found.failed[0].tool, found.failed[0].reason
    finding = Finding(
        kind="nothing",
        text=sentence(f"the text of {tool} cannot be read: {reason}"),
        sure=Sure(what="high"),
        do=f"Print it again, into a file. {_DO_OF[tool]}",
    )
    others = (*(one.reason for one in found.failed[1:]), *found.notes)
    return Answer(recording="totals", findings=(finding,), unknown=others)


def silent_answer(view: View) -> Answer | None:
    """Return the answer on texts that list nothing by name, None where there is no text."""
    found = _texts(view)
    if not found.silent:
        return None
    tool, path = found.silent[0]
    finding = Finding(
        kind="nothing",
        text=sentence(f"no kernel, call or range is listed by name in {path}"),
        sure=Sure(what="high"),
        do=_DO_OF[tool],
    )
    return Answer(recording="totals", findings=(finding,), unknown=tuple(found.notes))


def _has_times(section: Section) -> bool:
    names = {column.name for column in section.columns}
    return "Total Time" in names and bool(names & {"Name", "Range"})


def _columns(section: Section) -> tuple[Sequence[str], I64, I64]:
    """Return names, total times in ns and numbers of calls (int64 [n]) of a table."""
    columns = {column.name: column for column in section.columns}
    named = columns["Name" if "Name" in columns else "Range"]  # one without a row is false
    names = [named.cell(row) for row in range(len(named))]
    times, number = columns["Total Time"], columns.get("Instances") or columns.get("Num Calls")
    total = calls = np.zeros(len(names), np.int64)
    if isinstance(times, NumberColumn):
        total = np.maximum(times.ns(), 0)
    if isinstance(number, NumberColumn):
        calls = np.nan_to_num(number.floats()).astype(np.int64)
    return names, total, calls


def _printed_share(section: Section) -> float:
    """Return the sum of the shares in the column ``Time (%)``, 0.0 without one."""
    shares = next((one for one in section.columns if (one.name, one.unit) == ("Time", "%")), None)
    if not isinstance(shares, NumberColumn):
        return 0.0
    return float(np.nansum(shares.floats())) / 100


def _collectives(kernels: Totals) -> dict[str, int]:
    """Return how often each operation of collectives ran, the most frequent first."""
    found: dict[str, int] = {}
    for name, calls in zip(kernels.names, kernels.calls.tolist(), strict=True):
        kernel = communication_kernel(name)
        if kernel is not None:
            found[kernel.operation] = found.get(kernel.operation, 0) + calls
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _ranges(main: dict[str, Totals]) -> Finding | None:
    ranges = main.get("ranges")
    if ranges is None:
        return None
    names = [name.lstrip(":").rpartition(".")[2] or name for name in ranges.names]
    first = ranges.names[0].lstrip(":")
    share = percent_cell(ranges.share(0))
    text = f"the range {short_name(first)} takes {share} of the time in ranges"
    if len(names) > 1:
        text += f", {short_name(names[1])} {percent_cell(ranges.share(1))}"
    collectives = _collectives(main["kernels"]) if "kernels" in main else {}
    if collectives:
        operation, number = next(iter(collectives.items()))
        text += f"; {number:,} {_plural(operation)}"
    return Finding(
        kind="range_totals",
        text=sentence(text),
        more=sentence(
            f"largest ranges: {ranges.largest()}; the time of a range includes the ranges inside it"
        ),
        where=Where(range=first),
        sure=Sure(what="high"),
        do=_DO_OF[ranges.tool],
    )


def _plural(operation: str) -> str:
    """Return the plural of an operation as it is said: ``all-reduces``."""
    words = {
        "AllReduce": "all-reduces",
        "AllGather": "all-gathers",
        "ReduceScatter": "reduce-scatters",
        "AllToAll": "all-to-alls",
        "Broadcast": "broadcasts",
        "SendRecv": "sends and receives",
        GENERIC: "kernels of any operation",
    }
    return words.get(operation, f"calls of {operation}")


def _kernels(main: dict[str, Totals]) -> Finding | None:
    kernels = main.get("kernels")
    if kernels is None:
        return None
    title, share = kernels.by_title()[0]
    named = next(row for row, name in enumerate(kernels.names) if _title(name) == title)
    first = bare_name(kernels.names[named])
    with_copies = any(name.startswith(_COPY) for name in kernels.names)  # as nvprof lists them
    noun = "copy" if kernels.names[named].startswith(_COPY) else "kernel"
    time = "device time" if with_copies else "kernel time"
    text = f"the {noun} {title} takes {_much(share)} of {duration(kernels.whole_ns)} of {time}"
    largest = kernels.largest()
    more = [f"largest {'rows' if with_copies else 'kernels'}: {largest}"] if largest else []
    number = int(kernels.calls[named])
    if with_copies and number:
        each = duration(int(kernels.total_ns[named]) // number)
        more.insert(0, f"{counted(number, 'call')} of {each} each")
    collectives = _collectives(kernels)
    if collectives:
        ns = sum(
            total
            for name, total in zip(kernels.names, kernels.total_ns.tolist(), strict=True)
            if communication_kernel(name) is not None
        )
        calls = ", ".join(f"{n:,} {_plural(name)}" for name, n in list(collectives.items())[:3])
        more.append(f"communication {percent(ns / kernels.whole_ns)} ({calls})")
        if kernels.tool != _NSYS and ns >= _MUCH_COMMUNICATION * kernels.whole_ns:
            more.append("such a kernel also waits for the other ranks")
    return Finding(
        kind="kernel_totals",
        text=sentence(text),
        more=sentence("; ".join(more)),
        where=Where(kernel=first),
        sure=Sure(what="high"),
        do=_DO_OF[kernels.tool],
    )


_COPY: Final = "[CUDA mem"


def _much(share: float) -> str:
    return "all" if share >= _ALL else percent_cell(share)


def _calls(main: dict[str, Totals]) -> Finding | None:
    calls = main.get("calls")
    if calls is None:
        return None
    largest = calls.largest()
    api = "ROCm" if calls.tool == "rocprof" else "CUDA"
    whole = "" if calls.tool == _NSYS else f", {duration(calls.whole_ns)} in all"
    much = f"{_much(calls.share(0))} of the host's time in {api} calls{whole}"
    text = f"the call {calls.names[0]} takes {much}"
    return Finding(
        kind="kernel_totals",
        text=sentence(text),
        more=sentence(f"largest calls: {largest}" if largest else ""),
        where=Where(kernel=calls.names[0]),
        sure=Sure(what="high"),
        do=_DO_OF[calls.tool],
    )


_MOST_FILES: Final = 64
_MOST_BYTES: Final = 1 << 26

_WAITS: Final = ("Synchronize", "_local_scalar_dense", "MemcpyAsync", "cudaMemcpy", "hipMemcpy")
"""Calls in which the host waits for the device: their time is not work of the host."""
_MUCH_COMMUNICATION: Final = 0.3
"""Share of kernel time from which communication is what a job of many ranks has to look at."""
_HOST_BOUND: Final = 2.0
"""Times the device time that the host spends in operators from which the device waits for it."""
_TABLE_CANNOT: Final = (
    "A table of sums does not show when anything ran: waiting, overlap and single steps cannot be "
    "seen."
)
_TABLE_DO: Final = (
    "Export the trace of the same profiler on every rank (prof.export_chrome_trace): it shows who "
    "waits for whom, and what overlaps."
)
_FEWER_LAUNCHES: Final = (
    "Launch less: torch.compile or CUDA graphs, larger batches, fewer synchronisations (item(), "
    "cpu(), print of tensors). "
)


def table_answer(view: View) -> Answer | None:
    """Return the findings on printed tables, None where there is none, or none has any time."""
    tables = _in_logs(view).tables
    if not tables:
        return None
    path, table = max(tables, key=lambda one: (one[1].device_us or 0.0, one[1].cpu_us))
    found = [one for one in (_host(table), _table_kernels(table)) if one is not None]
    if not found:
        return None
    unknown = [_TABLE_CANNOT]
    if len(tables) > 1:
        which = f"{path} has the one that is described, with the most time"
        unknown.append(f"{counted(len(tables), 'table')} were found; {which}.")
    return Answer(recording="totals", findings=tuple(found), unknown=tuple(unknown))


class _InLogs(Struct, frozen=True):
    """Tables among the lines of logs, each with its path: of PyTorch's profiler and of nvprof.

    ``failed`` and ``notes`` are what was not read of nvprof's.
    """

    tables: list[tuple[str, ProfilerTable]]
    summed: list[tuple[str, SummedTables]]
    failed: list[str]
    notes: list[str]


def _in_logs(view: View) -> _InLogs:
    """Return what profilers printed into logs, which are read once for all of them."""
    return view.remember(_in_logs, lambda: _read_logs(view))


def _read_logs(view: View) -> _InLogs:
    found = _InLogs([], [], [], [])
    of_nvprof = view.job.discovery.files_of(NVPROF_TABLE)
    small = [file for file in view.job.discovery.files
             if file.format in LOGS and file.format is not NVPROF_TABLE and file.problem is None
             and file.duplicate_of is None and file.size_bytes <= _MOST_BYTES]  # fmt: skip
    for file in (*small[:_MOST_FILES], *_within(of_nvprof, "nvprof", found.notes)):
        try:
            with contained(file.path):
                text = read_bounded(Path(file.real_path), shown=file.path)
                if MARK in text.head or MARK in text.tail:
                    found.tables.extend((file.path, table) for table in read_tables(text))
                summed = nvprof_tables(text)
        except TraceError as error:  # of a log, stated by doctor
            if file.format is NVPROF_TABLE:
                found.failed.append(str(error))
            continue
        if summed.tables or file.format is NVPROF_TABLE:
            found.summed.append((file.path, summed))
    return found


def _table_kernels(table: ProfilerTable) -> Finding | None:
    kernels = sorted(table.device_rows, key=lambda row: -(row.device_us or 0.0))
    whole = table.device_us or 0.0
    if not kernels or whole <= 0:
        return None
    listed = sum(row.device_us or 0.0 for row in kernels)
    whole = max(whole, listed)
    collectives = [row for row in kernels if communication_kernel(row.name) is not None]
    shared = sum(row.device_us or 0.0 for row in collectives) / whole
    by_title: dict[str, float] = {}
    for row in kernels:
        by_title[_kernel_title(row)] = by_title.get(_kernel_title(row), 0.0) + (
            row.device_us or 0.0
        )
    ordered = sorted(by_title.items(), key=lambda one: -one[1])[:_SHOWN]
    largest = "; ".join(f"{title} {percent(us / whole)}" for title, us in ordered)
    first = collectives[0] if shared >= _MUCH_COMMUNICATION else kernels[0]
    noun = "kernel" if table.has_kernels else "operator"
    spent = f"{time_text(whole / 1e3)} of {'kernel time' if table.has_kernels else 'device time'}"
    if shared >= _MUCH_COMMUNICATION:
        each = (first.device_us or 0.0) / max(first.calls, 1) / 1e3
        text = (
            f"communication takes {percent(shared)} of {spent}: {_kernel_title(first)} "
            f"{time_text(each)} a call"
        )
        more = [f"largest {noun}s: {largest}", f"such a {noun} also waits for the other ranks"]
    else:
        share = percent((first.device_us or 0) / whole)
        text = f"the {noun} {_kernel_title(first)} takes {share} of {spent}"
        more = [f"largest {noun}s: {largest}"]
        if collectives:
            more.append(f"communication {percent(shared)}")
    return Finding(
        kind="kernel_totals",
        text=sentence(text),
        more=" ".join(map(sentence, more)),
        where=Where(kernel=bare_name(first.name)),
        sure=Sure(what="high"),
        do=_TABLE_DO,
    )


def _kernel_title(row: TableRow) -> str:
    kernel = communication_kernel(row.name)
    if kernel is not None:
        return f"{kernel.operation} ({kernel.library})"
    return short_name(bare_name(row.name))


def _host(table: ProfilerTable) -> Finding | None:
    operators = sorted((row for row in table.rows if row.cpu_us > 0), key=lambda row: -row.cpu_us)
    if not operators or table.cpu_us <= 0:
        return None
    device = table.device_us or 0.0
    largest = _listed_rows(operators, table.cpu_us)
    waits = sum(row.cpu_us for row in operators if any(word in row.name for word in _WAITS))
    busy = table.cpu_us - waits
    host = time_text((busy if device else table.cpu_us) / 1e3)
    first = operators[0]
    if device and busy >= _HOST_BOUND * device:
        text = (
            f"the host spends {host} in operators and calls, the device computes "
            f"{time_text(device / 1e3)}: it mostly waits for the host"
        )
        do = _FEWER_LAUNCHES + _TABLE_DO
    elif device:
        return None
    else:
        share = percent(first.cpu_us / table.cpu_us)
        text = f"the operator {short_name(first.name)} takes {share} of {host} on the host"
        do = _TABLE_DO
    return Finding(
        kind="kernel_totals" if not device else "host_bound",
        text=sentence(text),
        more=sentence(f"most time of its own: {largest}"),
        where=Where(kernel=first.name),
        saves_why="sums do not show how much time could be saved",
        sure=Sure(what="high" if not device else "medium"),
        do=do,
    )


def _listed_rows(rows: Sequence[TableRow], whole: float) -> str:
    return "; ".join(
        f"{short_name(row.name)} {percent(row.cpu_us / whole)}" for row in rows[:_SHOWN]
    )
