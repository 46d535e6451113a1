"""``ccltui stats``: print reports of ``nsys stats``, or delays of all-to-all exchanges."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.window import parse_window
from ccltui.report.output import check_target, print_message, write_report

if TYPE_CHECKING:
    from ccltui.metrics.nsys_reports import Report

PROG: Final = "ccltui stats"
FORMATS: Final = ("column", "csv", "json")
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
reports: cuda_gpu_trace, cuda_gpu_sum, cuda_gpu_kern_sum[:base|:mangled], cuda_gpu_mem_time_sum,
cuda_gpu_mem_size_sum, cuda_api_sum, nvtx_sum, nvtx_gpu_proj_sum, osrt_sum; names of older
versions (gpukernsum) are accepted. The exit status is 3 when a report that was named is absent."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui stats``."""
    result = args.Parser(prog=PROG, usage=_USAGE, description=_DESCRIPTION, epilog=_EPILOG)
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
        choices=_TIME_UNITS,
        default="ns",
        help="unit of times in the output; default: ns",
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
    result.add_argument("--format", choices=FORMATS, default="column", help="default: column")
    result.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all")
    _add_study(result)
    args.add_capture(result)
    args.add_loading(result)
    args.add_general(result)
    return result


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


def _percent(text: str) -> float:
    """Parse a percentage from 0 to 100. Raises GrammarError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise GrammarError(f"{text[:40]!r} is not a percentage from 0 to 100")
    return value


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui stats`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    problem = check_target(options.output) or check_target(options.svg)
    if problem is not None:
        raise GrammarError(problem)
    if options.alltoall:
        return _print_studies(options)
    if options.svg is not None:
        raise GrammarError("--svg draws the delays of --alltoall")
    return _print_reports(options)


def _print_studies(options: argparse.Namespace) -> int:
    from ccltui import slow_path  # noqa: PLC0415
    from ccltui.report import alltoall_writers as writers  # noqa: PLC0415
    from ccltui.report.alltoall_study import studies_of  # noqa: PLC0415  (numpy)

    if options.report or options.filter_time or options.filter_nvtx:
        raise GrammarError("--alltoall takes whole files: neither reports nor filters")
    studies = studies_of(options.path)
    for sentence in studies.problems:
        print_message(sentence)
    if not studies.nodes:
        print_message(
            "no all-to-all kernels found: they are in a cuda_gpu_trace in text form or in an export"
        )
        return exit_codes.REFUSED
    slow_path.warn()
    write_report(writers.WRITERS[options.format](studies, options.cutoff), options.output)
    if options.svg is not None:
        write_report(writers.write_svg(studies), options.svg)
    return exit_codes.OK


def _print_reports(options: argparse.Namespace) -> int:
    from ccltui.commands import stats_sources as sources  # noqa: PLC0415  (numpy)
    from ccltui.metrics.nsys_reports import parse_range_filter  # noqa: PLC0415
    from ccltui.report.nsys_cells import TIME_UNITS  # noqa: PLC0415
    from ccltui.report.nsys_writers import WRITERS  # noqa: PLC0415

    wanted = [one for text in options.report for one in sources.parse_reports(text)]
    nvtx = None if options.filter_nvtx is None else parse_range_filter(options.filter_nvtx)
    choice = sources.Choice(wanted, options.filter_time, nvtx, options.unit, options.each)
    lost: list[str] = []
    printed = sources.reports_of(LoadOptions.of(options.path, options), choice, lost)
    for one in printed:
        _print_remarks(one.source, one.reports)
    every = [report for one in printed for report in one.reports]
    present = [report for report in every if report.columns]
    if present:
        texts = [(one.source, [r for r in one.reports if r.columns]) for one in printed]
        write = WRITERS[options.format]
        write_report(write(texts, TIME_UNITS[options.timeunit]), options.output)
    complete = len(present) == len(every) if wanted else bool(present)
    return exit_codes.worst(
        exit_codes.INPUT if lost else exit_codes.OK,
        exit_codes.OK if complete else exit_codes.REFUSED,
    )


def _print_remarks(source: str, reports: Sequence[Report]) -> None:
    """Print on standard error which reports are absent or incomplete, each sentence once."""
    printed: set[str] = set()
    prefix = f"{source}: " if source else ""
    for report in reports:
        sentences = [f"{prefix}{report.name} is absent: {report.absent}"] if report.absent else []
        for sentence in (*sentences, *(f"{prefix}{note}" for note in report.notes)):
            if sentence not in printed:
                print_message(sentence)
            printed.add(sentence)
