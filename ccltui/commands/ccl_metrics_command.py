"""``ccl-metrics``: print metrics of a trace directory as one JSON document.

The interface is exactly that of the metric tool that ccltui replaces: one metric gives one object;
several give an object keyed by canonical name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ccltui.arguments import PROFILE_MODES, Parser, add_general, add_metric
from ccltui.commands import list_metrics
from ccltui.commands.loading import LoadOptions, add_functions, function_names, use_functions
from ccltui.commands.measure import Measured, choose_metrics, measure, required_of
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.report.output import write_report

PROG = "ccl-metrics"
_USAGE = "ccl-metrics --trace DIR --metric NAME [--profile-mode MODE] [--output-json]"
_DESCRIPTION = """\
Compute metrics of a trace directory and print them as JSON. One --metric prints its
dictionary; several print an object that maps each name to its dictionary. --metric-file without
--metric prints the metrics of that file or folder."""


def parser() -> Parser:
    """Parser of the arguments of ``ccl-metrics``."""
    result = Parser(prog=PROG, usage=_USAGE, description=_DESCRIPTION)
    result.add_argument("--trace", metavar="DIR", help="trace directory, or one trace file")
    add_metric(result, "name or alias of a metric; may be repeated; all: every metric but tables")
    add_functions(result)
    result.add_argument(
        "--list-metrics", action="store_true", help="print the names of the metrics and exit"
    )
    result.add_argument(
        "--profile-mode",
        choices=PROFILE_MODES,
        default="auto",
        help="traces to use: torch (Kineto), nsys, or auto: Kineto unless it lacks device work",
    )
    result.add_argument(
        "--output-json",
        action="store_true",
        help="print a JSON document also when the command line is wrong",
    )
    add_general(result)
    return result


def run(arguments: Sequence[str]) -> int:
    """Run ``ccl-metrics`` with its command-line arguments and return the exit status."""
    try:
        return _run(arguments)
    except GrammarError as error:
        if "--output-json" in arguments:
            _print(_usage_document(error))
        raise


def _run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    functions = use_functions(options)
    if options.list_metrics:
        return list_metrics.run_names()
    if options.trace is None:
        raise GrammarError("--trace DIR is missing: the trace directory")
    named = options.metric or function_names(functions)
    if not named:
        raise GrammarError("--metric NAME is missing; --list-metrics shows the names")
    metrics = choose_metrics(named)
    selection = ViewOptions(profile_mode=options.profile_mode)
    loading = LoadOptions(options.trace, profile_mode=options.profile_mode)
    measured = measure(metrics, loading, selection, debug=options.debug)
    measured = replace(measured, required=required_of(named))
    _print(_document(measured, keyed=len(metrics) > 1))
    measured.print_messages(warnings=False)
    return measured.exit_status


def _document(measured: Measured, *, keyed: bool) -> dict[str, Any]:
    documents = {result.metric: result.to_document() for _, result in measured.results}
    return dict(documents) if keyed else next(iter(documents.values()))


def _usage_document(error: GrammarError) -> dict[str, Any]:
    return {
        "metric": None,
        "schema": 1,
        "status": "unavailable",
        "reason": "usage",
        "reasons": [{"code": "usage", "message": str(error)}],
        "inputs": {},
        "warnings": [],
    }


def _print(value: Any) -> None:
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415

    write_report(json_bytes(value, indent=True), None)
