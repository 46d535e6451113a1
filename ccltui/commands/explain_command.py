"""``ccltui explain DIR``: explain in about twenty lines what slows a job down."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, unrelated_recordings
from ccltui.commands.measure import choose_metrics, measure
from ccltui.metrics.findings.finding import Recording
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import safe_text
from ccltui.report import explanation
from ccltui.report.explanation_writers import WRITERS, as_markdown, command_options
from ccltui.report.output import require_target, write_report

_DESCRIPTION = """\
Explain what slows a job down: what, who, why, how much of a step, how sure that is, what was ruled
out, and what to record to know more. Every statement names the metric that it comes from."""
_LEAST_BUDGET = 1024
_MOST_RECORDINGS = 12
"""Recordings whose first finding is stated: each is read for it."""


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui explain``."""
    result = args.of_verb("explain", _DESCRIPTION)
    result.add_argument("trace", metavar="DIR", help="trace directory, or one trace file")
    args.add_output(result, WRITERS, "md")
    result.add_argument(
        "--budget",
        type=int,
        default=explanation.BUDGET,
        metavar="BYTES",
        help=f"largest size of the JSON document; default: {explanation.BUDGET}",
    )
    return args.completed(result, args.add_capture, args.add_selection, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui explain`` with its arguments and return the exit status.

    Whatever a directory holds is answered with status 0; a path that cannot be read is an error,
    and a selection in which nothing is left has no answer.
    """
    options = parser().parse_args(arguments)
    args.settle_format(options, WRITERS, "md")
    require_target(options.output)
    if options.budget < _LEAST_BUDGET:
        raise GrammarError(f"--budget {options.budget}: at least {_LEAST_BUDGET} bytes")
    selection = args.selection_of(options)
    loading = LoadOptions.of(options.trace, options)
    names = unrelated_recordings(loading)
    if names:
        loading = loading.changed(capture=names[0])
    measured = measure(choose_metrics(explanation.METRICS), loading, selection, debug=options.debug)
    results = {metric.name: result for metric, result in measured.results}
    stated = {"--iteration": options.iteration, "--rank-map": options.rank_map}
    stated["--sample-ranks"] = options.sample_ranks
    same = command_options(selection, loading.capture, stated)
    found = explanation.explain(measured.trace, results, same)
    if names:
        found = explanation.with_choice(found, _recordings(names, loading, selection), names[0])
    # Also where nothing could be opened: a program reads the reason in the document. A person who
    # mistyped a path reads one line.
    if options.format == "json" or os.path.lexists(options.trace):
        write_report(_written(found, options), options.output)
    if measured.problem is not None and not found.findings:
        measured.print_messages(warnings=False)
        return exit_codes.INPUT
    if not found.findings and same and explanation.is_left_empty(results):
        return exit_codes.REFUSED
    return exit_codes.OK if measured.trace.complete else exit_codes.INTERRUPTED


def _written(found: explanation.Explanation, options: argparse.Namespace) -> bytes:
    """Return the explanation in its format; a terminal shows no backslashes of Markdown."""
    if options.format == "md" and not options.output and sys.stdout.isatty():
        return as_markdown(found, safe_text)
    return WRITERS[options.format](found, options.budget)


def _recordings(
    names: Sequence[str], loading: LoadOptions, selection: ViewOptions
) -> list[Recording]:
    """Return the first finding of each of several recordings, the opened one first."""
    rows = []
    for name in names[:_MOST_RECORDINGS]:
        one = loading.changed(capture=name)
        measured = measure(choose_metrics(("findings", "iter_time")), one, selection)
        results = {metric.name: result for metric, result in measured.results}
        rows_found: Sequence[Mapping[str, Any]] = results["findings"].details.get("findings") or ()
        first = rows_found[0] if rows_found else {}
        rows.append(
            Recording(
                name=name,
                ranks=measured.trace.ranks,
                steps=results["iter_time"].details.get("num_iterations"),
                finding=explanation.headline(results),
                kind=first.get("class"),
                share=first.get("share"),
            )
        )
    return rows
