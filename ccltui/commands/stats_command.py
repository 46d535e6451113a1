"""``ccltui stats``: print reports of ``nsys stats``, or delays of all-to-all exchanges."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.window import parse_window
from ccltui.report.output import print_message, require_target, write_report

if TYPE_CHECKING:
    from ccltui.metrics.nsys_reports import Report

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
    from ccltui.report.nsys_text import alltoall_study as writers  # noqa: PLC0415
    from ccltui.report.nsys_text.alltoall_study import studies_of  # noqa: PLC0415  (numpy)

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
    from ccltui.commands import stats_sources as sources  # noqa: PLC0415  (numpy)
    from ccltui.metrics.nsys_reports import parse_range_filter  # noqa: PLC0415
    from ccltui.report.nsys_text import nsys_outputs as outputs  # noqa: PLC0415
    from ccltui.report.nsys_text.nsys_writers import TIME_UNITS, write_reports  # noqa: PLC0415

    wanted = [one for text in options.report for one in sources.parse_reports(text)]
    nvtx = None if options.filter_nvtx is None else parse_range_filter(options.filter_nvtx)
    formats, targets = outputs.split_list(options.format), outputs.split_list(options.output)
    unit = TIME_UNITS[options.timeunit]
    for text in formats:  # a mistake in a format is found before the capture is read
        outputs.layout_for(text, outputs.CONSOLE, unit)
    is_paired = outputs.are_paired(formats, targets)
    target = targets[0] if targets else None
    outputs.check_outputs(targets)
    choice = sources.Choice(wanted, options.filter_time, nvtx, options.unit, options.each)
    lost: list[str] = []
    printed = sources.reports_of(LoadOptions.of(options.path, options), choice, lost)
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
