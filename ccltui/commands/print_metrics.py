"""``ccltui DIR --metric NAME``: print results, and evaluate gates for the exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions
from ccltui.commands.measure import (
    Measured,
    check_overrides,
    choose_metrics,
    find_metric,
    measure,
    required_of,
)
from ccltui.metrics.facts import FACTS, CostRecord, recorded
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.report.json_document import Entry, Report
from ccltui.report.output import print_message, require_target, write_report
from ccltui.report.text_layout import table

if TYPE_CHECKING:
    from ccltui.report.gates import Gate, Verdict
    from ccltui.report.writers import Writer


def run(options: argparse.Namespace, loading: LoadOptions, selection: ViewOptions) -> int:
    """Compute and print metrics, evaluate the gates, and return the exit status.

    ``options`` are those of ``ccltui DIR`` with the format settled.

    Raises GrammarError for an invalid command line, before anything is loaded.
    """
    metrics = choose_metrics([*options.metric, *(gate.metric for gate in options.fail_if)])
    check_overrides(selection.overrides, metrics)
    for target in (options.output, options.junit):
        require_target(target)
    # Imported here: it imports orjson.
    from ccltui.report.writers import writer_named  # noqa: PLC0415

    write = writer_named(options.format)  # before anything is read: it may not be usable
    with recorded() if options.explain_cost else nullcontext() as record:
        measured = measure(metrics, loading, selection, debug=options.debug)
    measured = replace(measured, required=required_of(options.metric))
    verdicts = [judged(gate, measured) for gate in options.fail_if]
    _print(measured, verdicts, options, selection, write)
    measured.print_messages(warnings=options.format in {"table", "csv", "openmetrics"})
    if record is not None:
        print_costs(record)
    print_gates(verdicts)
    write_gate_reports(verdicts, "ccltui", junit_file=options.junit, github=options.github)
    return exit_codes.worst(measured.exit_status, *(gate_status(verdict) for verdict in verdicts))


def _print(
    measured: Measured,
    verdicts: Sequence[Verdict],
    options: argparse.Namespace,
    selection: ViewOptions,
    write: Writer,
) -> None:
    """Write the report, except a table or csv of a trace that could not be opened."""
    if measured.problem is not None and options.format in {"table", "csv"}:
        return
    entries = [Entry(result, metric.headline) for metric, result in measured.results]
    report = Report(measured.trace, selection, entries, verdicts, detail=options.detail)
    write_report(write(report), options.output)


def print_costs(record: CostRecord) -> None:
    """Print on standard error what each metric asked for, in the order of computation."""
    rows = []
    for (metric, name), cost in record.costs.items():
        seconds = (f"{ns / 1e9:.4f}" for ns in (cost.cpu_ns, cost.wall_ns))
        rows.append((metric, name, *seconds, *_about_cost(metric, name)))
    header = ("metric", "fact", "CPU s", "wall s", "what it is", "grows with")
    lines = table(header, rows, align=("left", "left", "right", "right"))
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def _about_cost(metric: str, name: str) -> tuple[str, str]:
    """Return what a cost is of, and what it grows with."""
    if name in FACTS:
        return FACTS[name].about, FACTS[name].grows_with
    return ("the metric itself" if metric else "reading the traces, without worker processes"), ""


def judged(gate: Gate, measured: Measured) -> Verdict:
    """Evaluate a gate on results that include its metric."""
    from ccltui.report.gates import judge  # noqa: PLC0415  (xml; most commands have no gate)

    name = find_metric(gate.metric).name
    result = next(result for metric, result in measured.results if metric.name == name)
    return judge(gate, result)


def gate_status(verdict: Verdict) -> int:
    """Exit status of one gate."""
    if verdict.tripped is None:
        return exit_codes.REFUSED
    return exit_codes.GATE if verdict.tripped else exit_codes.OK


def print_gates(verdicts: Sequence[Verdict]) -> None:
    """Print on standard error which gates tripped or could not be decided."""
    for verdict in verdicts:
        if verdict.tripped:
            print_message(f"gate tripped: {verdict.gate.text} (it is {verdict.value!r})")
        elif verdict.problem is not None:
            print_message(f"gate not decided: {verdict.gate.text}: {verdict.problem}")


def write_gate_reports(
    verdicts: Sequence[Verdict], title: str, *, junit_file: str | None, github: bool
) -> None:
    """Write the outcome of gates for CI systems, where that is asked for."""
    if junit_file is None and not github:
        return
    from ccltui.report.gates import github_annotations, junit  # noqa: PLC0415  (xml)

    if junit_file is not None:
        write_report(junit(verdicts, title), junit_file)
    if github:
        for line in github_annotations(verdicts, title):
            sys.stderr.write(f"{line}\n")
