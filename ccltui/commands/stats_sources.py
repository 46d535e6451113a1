"""Where the reports of ``ccltui stats`` come from: an export, a text, or traces of ranks."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from ccltui import slow_path
from ccltui.commands.loading import LoadOptions, load_job, look_at, name_nsys
from ccltui.metrics.nsys_reports import REPORTS, Chosen, Report, make_pooled_report, make_report
from ccltui.metrics.nsys_reports.from_text import report_of_section
from ccltui.metrics.nsys_reports.from_traces import tables_of_traces
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter, RangeFilter, filter_of_range
from ccltui.parsers.discovery.sniff import sniff
from ccltui.parsers.errors import GrammarError, NotFoundError, TraceError, contained
from ccltui.parsers.format import UNKNOWN, Format
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.names import listed
from ccltui.parsers.nsys.report_reader import read_report_tables
from ccltui.parsers.nsys.report_tables import Part, ReportTables
from ccltui.parsers.nsys.text_reports.report_names import report_name, report_title
from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text
from ccltui.parsers.window import Window
from ccltui.report.output import say

DEFAULT_SET = (
    *("nvtx_sum", "osrt_sum", "cuda_api_sum", "cuda_gpu_kern_sum"),
    *("cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"),
)
"""What is printed when no report is named: nsys's own set, as far as it is computed here."""

_NOTHING_READABLE: Final = "none of its captures can be read"
_NEVER_NAMES = frozenset({"gpu_kern_summary", "gpu_kernel_summary", "kernel_sum"})
_KERNEL_NAMES = {"": "demangledName", "base": "shortName", "mangled": "mangledName"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A report as it was asked for: its name of today, and how kernels are named."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Everything that selects what is printed."""

    reports: Sequence[Wanted]
    window: Window | None = None
    nvtx: RangeFilter | None = None
    unit: str = ""
    each: bool = False  # of several captures, reports of each instead of all together

    @property
    def wanted(self) -> Sequence[Wanted]:
        """The reports, nsys's default set where none is named."""
        return self.reports or [Wanted(name) for name in DEFAULT_SET]


def parse_reports(text: str) -> tuple[Wanted, ...]:
    """Reports of a comma list, old names and spellings included. Raises GrammarError."""
    return tuple(_wanted(part) for part in text.split(","))


@dataclass(frozen=True, slots=True)
class Printed:
    """Reports of one source; ``source`` is "" where there is no other."""

    source: str
    reports: Sequence[Report]


def reports_of(loading: LoadOptions, choice: Choice) -> list[Printed]:
    """The reports that were asked for, absent ones with their reason. Raises TraceError."""
    path = Path(loading.path)
    if not path.exists():
        raise NotFoundError("no such file or directory", path=loading.path)
    known = UNKNOWN
    if not path.is_dir():
        known = sniff(str(path), path.name, path.stat().st_size).format
    if known.reports == "text":
        return [Printed("", _of_text(path, choice))]
    if known.reports == "rows":
        return [Printed("", _of_capture(path, known, loading, choice))]
    return _of_directory(loading, choice)


def _wanted(part: str) -> Wanted:
    written, _, argument = part.strip().partition(":")
    name = report_name(written)
    if name not in REPORTS:
        known = ", ".join(REPORTS)
        raise GrammarError(f"no report {written[:60]!r} is computed here; there are {known}")
    if argument not in _KERNEL_NAMES or (argument and name != "cuda_gpu_kern_sum"):
        raise GrammarError(f"{name}:{argument[:40]}: only cuda_gpu_kern_sum:base and :mangled")
    if report_name(written) != written and _spelling(written) in _NEVER_NAMES:
        say(f"no nsys has a report {written}; taken for {name}")
    return Wanted(name, argument)


def _spelling(written: str) -> str:
    return written.strip().lower().replace("-", "_").replace(" ", "_")


def _of_capture(path: Path, known: Format, loading: LoadOptions, choice: Choice) -> list[Report]:
    """Reports of an export, or of a report that nsys exports first."""
    with _opened(path, known, loading, choice, shown=str(path)) as capture:
        return _computed(choice, capture.tables)


def _found(
    found: FoundFile, loading: LoadOptions, choice: Choice
) -> contextlib.AbstractContextManager[_Export]:
    """One of the captures of a directory, opened."""
    return _opened(Path(found.real_path), found.format, loading, choice, shown=found.path)


@contextlib.contextmanager
def _opened(
    path: Path, known: Format, loading: LoadOptions, choice: Choice, *, shown: str
) -> Iterator[_Export]:
    """A capture as an export of sqlite, made first where it is none. Raises TraceError."""
    slow_path.tell()
    if known.to_sqlite is None:
        yield _Export(path, choice, shown)
        return
    name_nsys(loading)
    with tempfile.TemporaryDirectory(prefix="ccltui-") as scratch:
        target = Path(scratch) / "export.sqlite"
        yield _Export(known.to_sqlite(path, target, shown=shown), choice, shown)


class _Export:
    """The tables of an export, read once for all reports that name kernels alike."""

    def __init__(self, path: Path, choice: Choice, shown: str) -> None:
        self._path = path
        self._choice = choice
        self._shown = shown
        self._read: dict[str, ReportTables] = {}

    def tables(self, argument: str) -> ReportTables:
        """The tables with kernels named as ``argument`` says. Raises TraceError."""
        if argument not in self._read:
            wanted = [one for one in self._choice.wanted if one.argument == argument]
            parts = [REPORTS[one.name].parts for one in wanted]
            self._read[argument] = read_report_tables(
                self._path,
                shown=self._shown,
                kernel_name=_KERNEL_NAMES[argument],
                parts=frozenset[Part](["ranges"] if self._choice.nvtx else []).union(*parts),
            )
        return self._read[argument]


def _of_directory(loading: LoadOptions, choice: Choice) -> list[Printed]:
    """Reports of all ranks of a job, or of the files of nsys in a directory."""
    job = look_at(loading)
    files = job.capture.files
    of_nsys = [found for found in files if found.format.reports == "rows"]
    if len(of_nsys) == 1:
        one = of_nsys[0]
        return [Printed("", _of_capture(Path(one.real_path), one.format, loading, choice))]
    if of_nsys and choice.each:
        return _of_each(of_nsys, loading, choice)
    if of_nsys:
        return [Printed("", _of_all(of_nsys, loading, choice))]
    texts = [found for found in job.discovery.files if found.format.reports == "text"]
    if texts and not files:
        return _of_texts([found for found in texts if found.duplicate_of is None], choice)
    return [Printed("", _of_traces(loading, choice))]


def _of_each(files: Sequence[FoundFile], loading: LoadOptions, choice: Choice) -> list[Printed]:
    """Reports of each capture under its name; one that cannot be read is left out and told."""

    def read(found: FoundFile) -> Printed:
        with _found(found, loading, choice) as capture:
            return Printed(found.path, _computed(choice, capture.tables))

    printed = [one for _, one in _readable(files, read)]
    if not printed:
        raise TraceError(_NOTHING_READABLE, path=loading.path)
    return printed


def _of_texts(files: Sequence[FoundFile], choice: Choice) -> list[Printed]:
    """What each text holds, under its name: results of different captures cannot be pooled."""
    if len(files) == 1:
        return [Printed("", _of_text(Path(files[0].real_path), choice))]

    def read(found: FoundFile) -> Printed:
        return Printed(found.path, _of_text(Path(found.real_path), choice))

    return [one for _, one in _readable(files, read)]


def _of_all(files: Sequence[FoundFile], loading: LoadOptions, choice: Choice) -> list[Report]:
    """Reports of the rows of all captures together, as recipes of nsys pool files."""
    chosen: dict[str, list[Chosen]] = {one.argument: [] for one in choice.wanted}

    def read(found: FoundFile) -> dict[str, ReportTables]:
        with _found(found, loading, choice) as capture:
            return {argument: capture.tables(argument) for argument in chosen}

    names = []
    for found, tables in _readable(files, read):
        names.append(found.path)
        for argument, one in tables.items():
            bounds = _bounds(choice, one)
            if isinstance(bounds, str):
                say(f"{found.path}: {bounds}")
            else:
                chosen[argument].append(Chosen(one, bounds))
    if not names:
        raise TraceError(_NOTHING_READABLE, path=loading.path)
    say(f"pooled are {len(names)} captures: {listed(names)}; --each prints one after another")
    return [make_pooled_report(one.name, chosen[one.argument]) for one in choice.wanted]


def _readable(
    files: Sequence[FoundFile], read: Callable[[FoundFile], T]
) -> Iterator[tuple[FoundFile, T]]:
    """What is read of each file; one that cannot be is left out and told."""
    for found in files:
        try:
            with contained(found.path):
                content = read(found)
        except TraceError as error:
            say(f"{found.path} is left out: {error}")
        else:
            yield found, content


def _of_traces(loading: LoadOptions, choice: Choice) -> list[Report]:
    loaded = load_job(loading)
    for failure in loaded.job.failures:
        say(f"{failure.path} is left out: {failure.error}")
    if not loaded.job.ranks:
        raise TraceError("nothing that reports can be made of", path=loading.path)
    if any(wanted.argument for wanted in choice.reports):
        raise GrammarError("PyTorch traces hold one name a kernel: no :base and no :mangled")
    tables = tables_of_traces(loaded.job.ranks, loaded.job.origin_ns)
    return _computed(choice, lambda _: tables)


def _computed(choice: Choice, tables_for: Callable[[str], ReportTables]) -> list[Report]:
    reports = []
    for wanted in choice.wanted:
        tables = tables_for(wanted.argument)
        chosen = _bounds(choice, tables)
        if isinstance(chosen, str):
            reports.append(Report(wanted.name, report_title(wanted.name), absent=chosen))
        else:
            reports.append(make_report(wanted.name, tables, chosen))
    return reports


def _bounds(choice: Choice, tables: ReportTables) -> Filter | str:
    if choice.nvtx is not None:  # as in nsys, a range wins over a time
        return filter_of_range(tables, choice.nvtx)
    return Filter.of(choice.window) if choice.window else EVERYTHING


def _of_text(path: Path, choice: Choice) -> list[Report]:
    if choice.window or choice.nvtx:
        raise GrammarError("a text holds results: only the capture itself can be filtered again")
    stats = read_stats_text(path, shown=str(path), unit=choice.unit)
    for note in stats.notes:
        say(f"{path}: {note.message}")
    if not choice.reports:
        return [report_of_section(section) for section in stats.sections]
    reports = []
    for wanted in choice.reports:
        section = stats.find(wanted.name)
        if section is None:
            title = report_title(wanted.name)
            reports.append(Report(wanted.name, title, absent="the text does not hold it."))
        else:
            reports.append(report_of_section(section))
    return reports
