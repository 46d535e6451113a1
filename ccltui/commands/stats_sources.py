"""Where the reports of ``ccltui stats`` come from: an export, a text, or traces of ranks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ccltui.commands.loading import LoadOptions, load_job, look_at, name_nsys
from ccltui.report.output import say
from metrics.nsys_reports import REPORTS, Report, make_report
from metrics.nsys_reports.from_text import report_of_section
from metrics.nsys_reports.from_traces import tables_of_traces
from metrics.nsys_reports.select import EVERYTHING, Filter, RangeFilter, filter_of_range
from parsers.errors import GrammarError, NotFoundError, TraceError
from parsers.found import Kind
from parsers.names import listed
from parsers.nsys.report import export_report
from parsers.nsys.report_reader import read_report_tables
from parsers.nsys.report_tables import Part, ReportTables
from parsers.nsys.text import read_stats_text
from parsers.nsys.text_names import report_name, report_title
from parsers.sniff import sniff
from parsers.window import Window

DEFAULT_SET = (
    *("nvtx_sum", "osrt_sum", "cuda_api_sum", "cuda_gpu_kern_sum"),
    *("cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"),
)
"""What is printed when no report is named: nsys's own set, as far as it is computed here."""

_CAPTURES: Final[frozenset[Kind]] = frozenset({"nsys_sqlite", "nsys_tables", "nsys_report"})
_NEVER_NAMES = frozenset({"gpu_kern_summary", "gpu_kernel_summary", "kernel_sum"})
_KERNEL_NAMES = {"": "demangledName", "base": "shortName", "mangled": "mangledName"}


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

    @property
    def wanted(self) -> Sequence[Wanted]:
        """The reports, nsys's default set where none is named."""
        return self.reports or [Wanted(name) for name in DEFAULT_SET]


def parse_reports(text: str) -> tuple[Wanted, ...]:
    """Reports of a comma list, old names and spellings included. Raises GrammarError."""
    return tuple(_wanted(part) for part in text.split(","))


def reports_of(loading: LoadOptions, choice: Choice) -> list[Report]:
    """The reports that were asked for, absent ones with their reason. Raises TraceError."""
    path = Path(loading.path)
    if not path.exists():
        raise NotFoundError("no such file or directory", path=loading.path)
    kind: Kind = (
        "kineto" if path.is_dir() else sniff(str(path), path.name, path.stat().st_size).kind
    )
    if kind == "nsys_text":
        return _of_text(path, choice)
    if kind in _CAPTURES:
        return _of_capture(path, kind, loading, choice)
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


def _of_capture(path: Path, kind: Kind, loading: LoadOptions, choice: Choice) -> list[Report]:
    """Reports of an export, or of a report that nsys exports first."""
    if kind == "nsys_sqlite":
        return _of_export(path, choice, shown=str(path))
    name_nsys(loading)
    with tempfile.TemporaryDirectory(prefix="ccltui-") as scratch:
        target = Path(scratch) / "export.sqlite"
        if kind == "nsys_tables":
            from parsers.nsys.arrow import sqlite_of  # noqa: PLC0415  (and pyarrow)

            return _of_export(sqlite_of(path, target, shown=str(path)), choice, shown=str(path))
        return _of_export(export_report(path, target, shown=str(path)), choice, shown=str(path))


def _of_directory(loading: LoadOptions, choice: Choice) -> list[Report]:
    """Reports of all ranks of a job, or of the one file of nsys in a directory."""
    files = look_at(loading).capture.files
    of_nsys = [found for found in files if found.kind in _CAPTURES]
    if len(of_nsys) == 1:
        return _of_capture(Path(of_nsys[0].real_path), of_nsys[0].kind, loading, choice)
    if of_nsys:
        names = listed([found.path for found in of_nsys])
        raise GrammarError(f"reports are made of one capture: name one of {names}")
    return _of_traces(loading, choice)


def _of_export(path: Path, choice: Choice, *, shown: str) -> list[Report]:
    read: dict[str, ReportTables] = {}
    wanted = choice.wanted

    def tables_for(argument: str) -> ReportTables:
        if argument not in read:
            parts = [REPORTS[one.name].parts for one in wanted if one.argument == argument]
            read[argument] = read_report_tables(
                path,
                shown=shown,
                kernel_name=_KERNEL_NAMES[argument],
                parts=frozenset[Part](["ranges"] if choice.nvtx else []).union(*parts),
            )
        return read[argument]

    return _computed(choice, tables_for)


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
