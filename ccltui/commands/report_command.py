"""``ccltui report DIR``: write what is known of a job as one page to send or print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, job_name
from ccltui.commands.measure import check_overrides, choose_metrics, measure
from ccltui.report.output import print_message, require_target, streamed, write_report

_DESCRIPTION = """\
Write a report of a job as one file: the verdict, the parts of a step, the ranks, who is late when,
the worst moments, dimensions, kernels, distributions, how far to trust it, and definitions. The
HTML page needs no network and no scripts, is light or dark as the reader prefers, and prints."""
_FORMATS = ("html", "md")
_EPILOG = """\
An existing file is never replaced. Sections that these traces do not allow have the reason."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui report``."""
    result = args.of_verb("report", _DESCRIPTION, _EPILOG)
    result.add_argument("trace", metavar="DIR", help="trace directory, or one trace file")
    result.add_argument(
        "--format",
        choices=_FORMATS,
        help="html, or md: the text and the tables as Markdown; default: that of the ending of "
        "FILE, else html",
    )
    result.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="a new file, - for standard output; default: NAME-report.html or .md",
    )
    return args.completed(result, args.add_capture, args.add_selection, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui report`` with its arguments and return the exit status.

    That a section is absent is an answer: the status is that of reading the input and of writing.
    """
    options = parser().parse_args(arguments)
    args.settle_format(options, _FORMATS, "html")
    # Imported here: the template engine is not for the other commands.
    from ccltui.report.page.make_page import (  # noqa: PLC0415
        METRICS,
        html_page,
        make_page,
        markdown_page,
    )

    target = options.output or f"{job_name(options.trace)}-report.{options.format}"
    require_target(target)
    if target != "-" and Path(target).exists():
        print_message(f"{target} exists and is not replaced")
        return exit_codes.INPUT
    metrics, selection = choose_metrics(METRICS), args.selection_of(options)
    check_overrides(selection.overrides, metrics)
    measured = measure(
        metrics, LoadOptions.of(options.trace, options), selection, debug=options.debug
    )
    if measured.problem is not None:
        measured.print_messages(warnings=False)
    if measured.view is None:
        return exit_codes.INPUT
    page = make_page(measured.trace, measured.view, measured.results)
    try:
        _write(markdown_page(page) if options.format == "md" else html_page(page), target)
    except OSError as error:
        print_message(f"cannot write the report: {error}")
        return exit_codes.INPUT
    if not measured.trace.complete:
        return exit_codes.INTERRUPTED
    lost = measured.problem is not None or measured.trace.num_lost or measured.broken
    return exit_codes.INPUT if lost else exit_codes.OK


def _write(data: bytes, target: str) -> None:
    if target == "-":
        write_report(data, None)
        return
    with streamed(Path(target)) as file:
        file.write(data)
    print_message(f"wrote {target}")
