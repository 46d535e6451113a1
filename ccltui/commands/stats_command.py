"""``ccltui stats``: print reports of ``nsys stats``, or delays of all-to-all exchanges."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from ccltui import arguments as args
from ccltui import exit_codes, slow_path
from ccltui.commands.loading import LoadOptions, discover_job, load_job, set_nsys_path
from ccltui.metrics.nsys_reports.make_report import (
    PREFIX_PARTS,
    REPORTS,
    make_pooled_report,
    make_report,
)
from ccltui.metrics.nsys_reports.pooled import Chosen, tables_of_traces
from ccltui.metrics.nsys_reports.report import Report, filtered_report, report_of_section
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter, RangeFilter, filter_of_range
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
from ccltui.parsers.nsys.report_tables import Part, ReportTables, read_report_tables
from ccltui.parsers.nsys.stats_text import read_stats_text
from ccltui.parsers.nsys.typed_table import (
    OLD_NAMES,
    Section,
    report_name,
    report_title,
)
from ccltui.parsers.safe_text import listed
from ccltui.parsers.scratch_folder import scratch_folder
from ccltui.parsers.window import Window, parse_window
from ccltui.report.output import print_message, require_target, write_report

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


_STUDY_FORMATS: Final = ("column", "csv", "json")
_TIME_UNITS: Final = ("ns", "nsec", "us", "usec", "ms", "msec", "s", "sec")
_USAGE = """\
ccltui stats PATH [--report NAME[,NAME…]] [options]
       ccltui stats PATH --alltoall [--cutoff P] [--svg FILE] [options]"""
_DESCRIPTION = """\
Print reports in the form of nsys stats. PATH is an nsys export (.sqlite), an nsys report
(.nsys-rep; nsys exports it first), the text of nsys stats, a PyTorch trace, or a directory of
PyTorch traces, whose ranks are pooled, or of several captures, pooled too unless --each is given.
From an export the cells equal those of nsys. With --alltoall: the time that the all-to-all
exchanges of a node wait for their last device, from the exports and texts below PATH."""
_EPILOG = """\
Reports have the names of nsys 2022 to 2026 and their arguments: cuda_gpu_kern_sum:base, :mangled,
:nvtx-name, um_sum:rows=20; an unknown name lists all. Formats: column, table, csv, tsv, json, hdoc,
htable, with arguments such as csv:time=us:mem=KiB:nohdr. Outputs: "-" is the console, "@command"
pipes into a command, a name with the extension of a format is that file, and any other name is the
base of <base>_<report>.<extension>, "." being the path of the capture. Several reports, formats and
outputs are paired as nsys pairs them: the last of a shorter list is repeated. The exit status is 3
when a report that was named is absent."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui stats``."""
    result = args.of_verb("stats", _DESCRIPTION, _EPILOG, _USAGE)
    result.add_argument("path", metavar="PATH", help="export, text, trace or directory")
    result.add_argument(
        "-r",
        "--report",
        action="append",
        default=[],
        metavar="NAMES",
        help="reports by name, separated by commas; may be repeated; default: those of nsys, or "
        "all in a text",
    )
    result.add_argument(
        "--filter-time",
        type=args.grammar(parse_window),
        metavar="A/B",
        help="rows that touch this time, taken whole: 6s/6s480ms, or either side alone",
    )
    result.add_argument(
        "--filter-nvtx",
        metavar="NAME",
        help="rows that touch this range: name[@domain][/index]; wins over --filter-time",
    )
    result.add_argument(
        "--timeunit",
        type=_time_unit,
        metavar="UNIT",
        default="ns",
        help="unit of times in the output: ns, us, ms, sec, or a name of nsys such as usec or "
        "microseconds, also shortened; default: ns",
    )
    result.add_argument(
        "--unit",
        choices=_TIME_UNITS,
        default="",
        help="unit of times in a text whose header names none",
    )
    result.add_argument(
        "--each",
        action="store_true",
        help="print the reports of each of several captures, one after another, under its name",
    )
    result.add_argument(
        "-f",
        "--format",
        action="append",
        default=[],
        metavar="FORMATS",
        help="formats, separated by commas; may be repeated; default: column; to a file the format "
        "of its extension, csv where it has none",
    )
    result.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="OUTPUTS",
        help="outputs, separated by commas; may be repeated; a file is written whole or not at all",
    )
    result.add_argument(
        "--force-overwrite",
        nargs="?",
        const="true",
        default="false",
        choices=("true", "false"),
        help="replace files named after reports",
    )
    result.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="print no remarks: what is absent shows in the exit status only",
    )
    return args.completed(result, _add_study, args.add_capture, args.add_loading)


def _add_study(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("delays of all-to-all")
    group.add_argument(
        "--alltoall",
        action="store_true",
        help="print Total, Actual and delay of the exchanges instead of reports",
    )
    group.add_argument(
        "--cutoff",
        type=args.grammar(_percent),
        default=1.0,
        metavar="P",
        help="shares of device time below P percent are added up; default: 1",
    )
    group.add_argument(
        "--svg", metavar="FILE", help="write the distribution of the delays as an SVG drawing"
    )


def _time_unit(text: str) -> str:
    """Return the unit of a name or the beginning of one, as nsys reads them."""
    names = {
        **{name: name for name in _TIME_UNITS},
        **{"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "seconds": "s"},
    }
    if text in names:
        return names[text]
    found = {unit for name, unit in names.items() if len(text) > 2 and name.startswith(text)}
    if len(found) != 1:
        known = ", ".join(_TIME_UNITS)
        raise argparse.ArgumentTypeError(f"invalid choice: {text[:20]!r} (choose from {known})")
    return found.pop()


def _percent(text: str) -> float:
    return args.number(text, 0, 100, "a percentage from 0 to 100")


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui stats`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    require_target(options.svg)
    if options.alltoall:
        return _print_studies(options)
    if options.svg is not None:
        raise GrammarError("--svg draws the delays of --alltoall")
    return _print_reports(options)


def _print_studies(options: argparse.Namespace) -> int:
    from ccltui import slow_path  # noqa: PLC0415
    from ccltui.report import alltoall_study as writers  # noqa: PLC0415
    from ccltui.report.alltoall_study import studies_of  # noqa: PLC0415  (numpy)

    if options.report or options.filter_nvtx:
        raise GrammarError("--alltoall takes neither reports nor --filter-nvtx")
    target = _only(options.output)
    single = argparse.Namespace(format=_only(options.format), output=target)
    args.settle_format(single, _STUDY_FORMATS, "column")
    chosen = single.format
    if chosen not in _STUDY_FORMATS:
        raise GrammarError(f"--alltoall is written as {', '.join(_STUDY_FORMATS)}")
    require_target(target)
    studies = studies_of(options.path, window=options.filter_time)
    for sentence in studies.problems:
        print_message(sentence)
    if not studies.nodes:
        print_message(
            "no all-to-all kernels found: they are in a cuda_gpu_trace in text form or in an export"
        )
        return exit_codes.REFUSED
    slow_path.warn()
    write_report(writers.WRITERS[chosen](studies, options.cutoff), target)
    if options.svg is not None:
        write_report(writers.write_svg(studies), options.svg)
    return exit_codes.OK


def _only(texts: Sequence[str]) -> str | None:
    """Return the only text, None without any. Raises GrammarError."""
    if len(texts) > 1:
        raise GrammarError("--alltoall takes one format and one output")
    return texts[0] if texts else None


def _print_reports(options: argparse.Namespace) -> int:
    from ccltui.metrics.nsys_reports.row_filter import parse_range_filter  # noqa: PLC0415
    from ccltui.report import nsys_writers as outputs  # noqa: PLC0415
    from ccltui.report.nsys_writers import TIME_UNITS, write_reports  # noqa: PLC0415

    wanted = [one for text in options.report for one in parse_reports(text)]
    nvtx = None if options.filter_nvtx is None else parse_range_filter(options.filter_nvtx)
    formats, targets = outputs.split_list(options.format), outputs.split_list(options.output)
    unit = TIME_UNITS[options.timeunit]
    for text in formats:  # a mistake in a format is found before the capture is read
        outputs.layout_for(text, outputs.CONSOLE, unit)
    is_paired = outputs.are_paired(formats, targets)
    target = targets[0] if targets else None
    outputs.check_outputs(targets)
    choice = Choice(wanted, options.filter_time, nvtx, options.unit, options.each)
    lost: list[str] = []
    printed = reports_of(LoadOptions.of(options.path, options), choice, lost)
    for one in [] if options.quiet else printed:
        _print_remarks(one.source or options.path, one.source, one.reports)
    every = [report for one in printed for report in one.reports]
    present = [report for report in every if report.columns]
    complete = len(present) == len(every) if wanted else bool(present)
    if is_paired and len(printed) > 1:
        raise GrammarError("several captures are printed together: one format and one output")
    if is_paired:
        labels = [one.label for one in choice.wanted] if wanted else []
        named = [
            (labels[place] if place < len(labels) else report.name, report)
            for place, report in enumerate(every)
        ]
        shown = named if wanted else [pair for pair in named if pair[1].columns]
        pairs = outputs.pair(shown, formats, targets, unit)
        overwrite = options.force_overwrite == "true"
        complete &= outputs.write_pairs(pairs, Path(options.path), overwrite=overwrite)
    elif present:
        texts = [(one.source, [r for r in one.reports if r.columns]) for one in printed]
        layout = outputs.layout_for(formats[0] if formats else ".", target or outputs.CONSOLE, unit)
        write_report(write_reports(texts, layout), target)
    return exit_codes.worst(
        exit_codes.INPUT if lost else exit_codes.OK,
        exit_codes.OK if complete else exit_codes.REFUSED,
    )


def _print_remarks(path: str, source: str, reports: Sequence[Report]) -> None:
    """Print on standard error which reports are absent or incomplete, each sentence once."""
    printed: set[str] = set()
    prefix = f"{source}: " if source else ""
    for report in reports:
        reason = (report.absent or "").replace("the capture ", f"{path} ", 1)
        sentences = [f"{report.name}: SKIPPED: {reason}"] if report.absent else []
        for sentence in (*sentences, *(f"{prefix}{note}" for note in report.notes)):
            if sentence not in printed:
                print_message(sentence)
            printed.add(sentence)
