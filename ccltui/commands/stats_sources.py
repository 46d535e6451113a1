"""Read the reports of ``ccltui stats`` from an export, a text, or traces of ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from ccltui import slow_path
from ccltui.commands.loading import LoadOptions, discover_job, load_job, set_nsys_path
from ccltui.metrics.nsys_reports import (
    PREFIX_PARTS,
    REPORTS,
    Chosen,
    Report,
    make_pooled_report,
    make_report,
)
from ccltui.metrics.nsys_reports.from_text import filtered_report, report_of_section
from ccltui.metrics.nsys_reports.from_traces import tables_of_traces
from ccltui.metrics.nsys_reports.row_filter import (
    EVERYTHING,
    Filter,
    RangeFilter,
    filter_of_range,
)
from ccltui.parsers.discovery.sniff import sniff
from ccltui.parsers.errors import (
    GrammarError,
    NotFoundError,
    TraceError,
    contained,
    defect_of,
    is_of_machine,
)
from ccltui.parsers.format import UNKNOWN, Format
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.names import listed
from ccltui.parsers.nsys.report_reader import read_report_tables
from ccltui.parsers.nsys.report_tables import Part, ReportTables
from ccltui.parsers.nsys.text_reports.report_names import OLD_NAMES, report_name, report_title
from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text
from ccltui.parsers.nsys.text_reports.typed_table import Section
from ccltui.parsers.system.scratch_folder import scratch_folder
from ccltui.parsers.window import Window
from ccltui.report.output import print_message

DEFAULT_SET: Final = (
    *("nvtx_sum", "osrt_sum", "cuda_api_sum", "cuda_gpu_kern_sum"),
    *("cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "openmp_sum", "opengl_khr_range_sum"),
    *("opengl_khr_gpu_range_sum", "vulkan_marker_sum", "vulkan_gpu_marker_sum", "dx11_pix_sum"),
    *("dx12_gpu_marker_sum", "dx12_pix_sum", "um_sum", "um_total_sum"),
    *("um_cpu_page_faults_sum", "openacc_sum", "syscall_sum"),
)
"""Reports that are printed by default: those of nsys, without the queues of Windows."""

_NOTHING_READABLE: Final = "none of its captures can be read"
_NEVER_NAMES = frozenset({"gpu_kern_summary", "gpu_kernel_summary", "kernel_sum"})
_KERNEL_NAMES = {"": "demangledName", "base": "shortName", "mangled": "mangledName"}

T = TypeVar("T")


class Wanted(Struct, frozen=True):
    """A requested report by its current name, with its arguments.

    ``form``: column of the names of kernels, one of _KERNEL_NAMES. ``by_range``: kernels are named
    by the range that launched them. ``number``: value of the numeric argument. ``label``: the name
    and the arguments as written, for names of files.
    """

    name: str
    form: str = ""
    by_range: bool = False
    number: int | None = None
    label: str = ""


class Choice(Struct, frozen=True):
    """Selection of reports, times and units."""

    reports: Sequence[Wanted]
    window: Window | None = None
    nvtx: RangeFilter | None = None
    unit: str = ""
    each: bool = False  # report each of several captures instead of pooling them

    @property
    def wanted(self) -> Sequence[Wanted]:
        """The requested reports, by default DEFAULT_SET."""
        return self.reports or [Wanted(name) for name in DEFAULT_SET]


def parse_reports(text: str) -> tuple[Wanted, ...]:
    """Parse a comma-separated list of reports, also by their old names. Raises GrammarError."""
    return tuple(_wanted(part) for part in text.split(","))


class Printed(Struct, frozen=True):
    """Reports of one source; ``source`` is "" if there is only one."""

    source: str
    reports: Sequence[Report]


def reports_of(loading: LoadOptions, choice: Choice, lost: list[str]) -> list[Printed]:
    """Compute the selected reports; absent ones have a reason.

    Args:
        loading: The path, and how its files are opened.
        choice: The reports, times and units.
        lost: Extended by the paths of files that were left out although their content may be fine:
            the system refused to open them, or their reader failed.

    Raises:
        TraceError: Nothing can be read.
    """
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
    return _of_directory(loading, choice, lost)


def _wanted(part: str) -> Wanted:
    written, *arguments = part.strip().split(":")
    name = report_name(written)
    if name not in REPORTS:
        raise GrammarError(_unknown(written))
    recipe = REPORTS[name]
    form, by_range, number = "", False, None
    for argument in arguments:
        key, _, value = argument.partition("=")
        if argument in recipe.kernel_names and argument == "nvtx-name":
            by_range = True
        elif argument in recipe.kernel_names and not form:
            form = argument
        elif recipe.number is not None and key == recipe.number.name:
            number = _whole_number(argument, value)
        else:
            raise GrammarError(f"{name}:{argument[:40]}: its arguments are {recipe.usage(name)}")
    if report_name(written) != written and _spelling(written) in _NEVER_NAMES:
        print_message(f"no version of nsys has a report {written}; using {name}")
    return Wanted(name, form, by_range, number, ":".join([name, *arguments]))


def _whole_number(argument: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise GrammarError(f"{argument[:40]!r}: the value is a whole number")
    return int(value)


def _unknown(written: str) -> str:
    """Say that there is no such report, with the nearest names and all names."""
    spelled = _spelling(written)
    near = get_close_matches(spelled, [*REPORTS, *OLD_NAMES], n=3, cutoff=0.5)
    names = list(dict.fromkeys(report_name(one) for one in near))
    nearest = f" Nearest: {', '.join(names)}." if names else ""
    known = ", ".join(sorted(REPORTS))
    return f"unknown report {written[:60]!r}.{nearest} Available reports: {known}"


def _spelling(written: str) -> str:
    return written.strip().lower().replace("-", "_").replace(" ", "_")


def _of_capture(path: Path, known: Format, loading: LoadOptions, choice: Choice) -> list[Report]:
    """Reports of one export, or of a report file that nsys exports first."""
    with _opened(path, known, loading, choice, shown=str(path)) as capture:
        return _computed(choice, capture.tables)


def _found(
    found: FoundFile, loading: LoadOptions, choice: Choice
) -> contextlib.AbstractContextManager[_Export]:
    """Open one of the captures of a directory."""
    return _opened(Path(found.real_path), found.format, loading, choice, shown=found.path)


@contextlib.contextmanager
def _opened(
    path: Path, known: Format, loading: LoadOptions, choice: Choice, *, shown: str
) -> Iterator[_Export]:
    """Open a capture as an sqlite export, converting it first if necessary. Raises TraceError."""
    slow_path.warn()
    if known.to_sqlite is None:
        yield _Export(path, choice, shown)
        return
    set_nsys_path(loading)
    with scratch_folder() as scratch:
        target = scratch / "export.sqlite"
        yield _Export(known.to_sqlite(path, target, shown=shown), choice, shown)


class _Export:
    """Tables of an export, read once for all reports with the same form of kernel names."""

    def __init__(self, path: Path, choice: Choice, shown: str) -> None:
        self._path = path
        self._choice = choice
        self._shown = shown
        self._read: dict[str, ReportTables] = {}

    def tables(self, form: str) -> ReportTables:
        """Tables with this form of kernel names. Raises TraceError."""
        if form not in self._read:
            wanted = [one for one in self._choice.wanted if one.form == form]
            recipes = [REPORTS[one.name] for one in wanted]
            parts = frozenset[Part](["ranges", "places"] if self._choice.nvtx else [])
            if any(one.by_range for one in wanted):
                parts |= PREFIX_PARTS
            self._read[form] = read_report_tables(
                self._path,
                shown=self._shown,
                kernel_name=_KERNEL_NAMES[form],
                parts=parts.union(*(recipe.parts for recipe in recipes)),
                raw=tuple(dict.fromkeys(one for recipe in recipes for one in recipe.raw)),
            )
        return self._read[form]


def _of_directory(loading: LoadOptions, choice: Choice, lost: list[str]) -> list[Printed]:
    """Reports of all ranks of a job, or of the files of nsys in a directory."""
    job = discover_job(loading)
    files = job.capture.files
    of_nsys = [found for found in files if found.format.reports == "rows"]
    if len(of_nsys) == 1:
        one = of_nsys[0]
        return [Printed("", _of_capture(Path(one.real_path), one.format, loading, choice))]
    if of_nsys and choice.each:
        return _of_each(of_nsys, loading, choice, lost)
    if of_nsys:
        return [Printed("", _of_all(of_nsys, loading, choice, lost))]
    texts = [found for found in job.discovery.files if found.format.reports == "text"]
    if texts and all(found.format.reports == "text" for found in files):
        return _of_texts([found for found in texts if found.duplicate_of is None], choice, lost)
    return [Printed("", _of_traces(loading, choice, lost))]


def _of_each(
    files: Sequence[FoundFile], loading: LoadOptions, choice: Choice, lost: list[str]
) -> list[Printed]:
    """Reports of each capture under its name; unreadable ones are skipped with a message."""

    def read(found: FoundFile) -> Printed:
        with _found(found, loading, choice) as capture:
            return Printed(found.path, _computed(choice, capture.tables))

    printed = [one for _, one in _readable(files, read, lost)]
    if not printed:
        raise TraceError(_NOTHING_READABLE, path=loading.path)
    return printed


def _of_texts(files: Sequence[FoundFile], choice: Choice, lost: list[str]) -> list[Printed]:
    """Reports of each text under its name: results of different captures cannot be pooled."""
    if len(files) == 1:
        return [Printed("", _of_text(Path(files[0].real_path), choice))]

    def read(found: FoundFile) -> Printed:
        return Printed(found.path, _of_text(Path(found.real_path), choice))

    return [one for _, one in _readable(files, read, lost)]


def _of_all(
    files: Sequence[FoundFile], loading: LoadOptions, choice: Choice, lost: list[str]
) -> list[Report]:
    """Reports of the rows of all captures together, as recipes of nsys pool files."""
    chosen: dict[str, list[Chosen]] = {one.form: [] for one in choice.wanted}

    def read(found: FoundFile) -> dict[str, ReportTables]:
        with _found(found, loading, choice) as capture:
            return {form: capture.tables(form) for form in chosen}

    names = []
    for found, tables in _readable(files, read, lost):
        names.append(found.path)
        for form, one in tables.items():
            bounds = _bounds(choice, one)
            if isinstance(bounds, str):
                print_message(f"{found.path}: {bounds}")
            else:
                chosen[form].append(Chosen(one, bounds))
    if not names:
        raise TraceError(_NOTHING_READABLE, path=loading.path)
    print_message(f"pooled {len(names)} captures: {listed(names)}; --each prints one after another")
    return [
        make_pooled_report(one.name, chosen[one.form], by_range=one.by_range, number=one.number)
        for one in choice.wanted
    ]


def _readable(
    files: Sequence[FoundFile], read: Callable[[FoundFile], T], lost: list[str]
) -> Iterator[tuple[FoundFile, T]]:
    """Read each file; unreadable ones are skipped with a message, ``lost`` as of `reports_of`."""
    for found in files:
        try:
            with contained(found.path):
                content = read(found)
        except TraceError as error:
            print_message(f"{found.path} is left out: {error}")
            if is_of_machine(error) or defect_of(error):
                lost.append(found.path)
        else:
            yield found, content


def _of_traces(loading: LoadOptions, choice: Choice, lost: list[str]) -> list[Report]:
    loaded = load_job(loading)
    for failure in loaded.job.failures:
        print_message(f"{failure.path} is left out: {failure.error}")
    lost += [failure.path for failure in loaded.job.failures if failure.is_lost or failure.defect]
    if not loaded.job.ranks:
        raise TraceError(
            "no trace, export or text of nsys stats here that can be read", path=loading.path
        )
    if any(wanted.form for wanted in choice.reports):
        raise GrammarError("PyTorch traces have only one name per kernel: no :base and no :mangled")
    tables = tables_of_traces(loaded.job.ranks, loaded.job.origin_ns)
    return _computed(choice, lambda _: tables)


def _computed(choice: Choice, tables_for: Callable[[str], ReportTables]) -> list[Report]:
    reports = []
    for wanted in choice.wanted:
        tables = tables_for(wanted.form)
        chosen = _bounds(choice, tables)
        if isinstance(chosen, str):
            reports.append(Report(wanted.name, report_title(wanted.name), absent=chosen))
        else:
            report = make_report(
                wanted.name, tables, chosen, by_range=wanted.by_range, number=wanted.number
            )
            reports.append(report)
    return reports


def _bounds(choice: Choice, tables: ReportTables) -> Filter | str:
    if choice.nvtx is not None:  # as in nsys, a range wins over a time
        return filter_of_range(tables, choice.nvtx)
    return Filter.of(choice.window) if choice.window else EVERYTHING


def _of_text(path: Path, choice: Choice) -> list[Report]:
    if choice.nvtx:
        raise GrammarError("--filter-nvtx: a text has no ranges to filter by, but the capture has")
    stats = read_stats_text(path, shown=str(path), unit=choice.unit)
    for note in stats.notes:
        print_message(f"{path}: {note.message}")
    if not choice.reports:
        return [_of_section(section, choice) for section in stats.sections]
    reports = []
    for wanted in choice.reports:
        section = stats.find(wanted.name)
        if section is None:
            title = report_title(wanted.name)
            reports.append(Report(wanted.name, title, absent="the text does not contain it."))
        else:
            reports.append(_of_section(section, choice))
    return reports


def _of_section(section: Section, choice: Choice) -> Report:
    if choice.window is None:
        return report_of_section(section)
    return filtered_report(section, choice.window)
