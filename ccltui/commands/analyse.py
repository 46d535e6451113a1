"""``ccltui analyse DIR…``: write all metrics of each directory to files beside its traces."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, add_functions, use_functions
from ccltui.commands.measure import (
    ALL_METRICS,
    Measured,
    check_overrides,
    choose_metrics,
    measure,
    required_of,
)
from ccltui.commands.print_metrics import (
    gate_status,
    judged,
    print_gates,
    write_gate_reports,
)
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import printable
from ccltui.report.gates import Gate, Verdict
from ccltui.report.json_document import Entry, Report
from ccltui.report.output import print_message, require_target, write_file, write_report
from ccltui.report.text_layout import table, text_bytes

PROG: Final = "ccltui analyse"
NAMES: Final = ("metrics.json", "metrics.csv")
HEADER: Final = ("directory", "ranks", "ok", "partial", "unavailable", "written")
_DESCRIPTION = """\
Compute every metric of each directory, without a terminal, and write metrics.json and metrics.csv
beside the traces (or below --output-dir). Their contents are those of --format json and --format
csv. Files of those names that ccltui has not written are not overwritten."""
_EPILOG = """\
The exit status is 1 when a directory could not be read; the others are written nevertheless."""
_OURS: Final = {
    "metrics.json": re.compile(rb'\s*\{\s*"schema_version"\s*:'),
    "metrics.csv": re.compile(rb"metric,key,"),
}


class Task(Struct, frozen=True):
    """One directory, and the folder for its two files."""

    path: str
    target: Path


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui analyse``."""
    result = args.of_verb("analyse", _DESCRIPTION, _EPILOG)
    result.add_argument("traces", nargs="+", metavar="DIR", help="trace directories")
    args.add_metric(result, "only this metric; may be repeated; default: all")
    add_functions(result)
    args.add_gate(
        result, "exit with 4 if the condition holds in any of the directories; may be repeated"
    )
    args.add_gate_reports(result)
    result.add_argument(
        "--output-dir",
        type=Path,
        metavar="BASE",
        help="write into BASE/NAME, NAME being that of the directory, not beside the traces",
    )
    return args.completed(result, args.add_selection, args.add_capture, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui analyse`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    use_functions(options)
    named = options.metric or [ALL_METRICS]
    metrics = choose_metrics([*named, *(gate.metric for gate in options.fail_if)])
    selection = args.selection_of(options)
    check_overrides(selection.overrides, metrics)
    require_target(options.junit)
    tasks = _tasks(options.traces, options.output_dir)
    rows, status = [], exit_codes.OK
    suites: dict[str, Sequence[Verdict]] = {}
    for task in tasks:
        measured = measure(metrics, LoadOptions.of(task.path, options), selection)
        measured = structs.replace(measured, required=required_of(named))
        verdicts = [_judged(gate, measured) for gate in options.fail_if]
        one, row = _finished(task, measured, selection, verdicts)
        status = exit_codes.worst(status, one)
        rows.append(row)
        suites[f"{PROG} {printable(task.path)}"] = verdicts
    _write_gate_reports(suites, options)
    align: tuple[Any, ...] = ("left", *["right"] * 4)
    write_report(text_bytes(table(HEADER, rows, align=align)), None)
    return status


def _finished(
    task: Task, measured: Measured, selection: ViewOptions, verdicts: Sequence[Verdict]
) -> tuple[int, tuple[str, ...]]:
    """Write the results of one directory; return its exit status and row of the table.

    A failure is printed and does not stop the other directories.
    """
    if measured.problem is not None:
        print_message(measured.problem)
        return exit_codes.INPUT, _row(task, measured, written=False)
    try:
        _write(task, measured, selection, verdicts)
    except OSError as error:
        print_message(f"{error.filename or task.target}: {error.strerror or error}")
        return exit_codes.INPUT, _row(task, measured, written=False)
    print_gates(verdicts)
    gates = [gate_status(verdict) for verdict in verdicts]
    return exit_codes.worst(measured.exit_status, *gates), _row(task, measured, written=True)


def _judged(gate: Gate, measured: Measured) -> Verdict:
    """Evaluate a gate; nothing is decided of a directory that cannot be read."""
    if measured.problem is not None:
        return Verdict(gate, None, None, measured.problem)
    return judged(gate, measured)


def _write_gate_reports(
    suites: Mapping[str, Sequence[Verdict]], options: argparse.Namespace
) -> None:
    """Write the outcome of the gates of all directories for CI systems."""
    if options.junit is not None:
        from ccltui.report.gates import junit_suites  # noqa: PLC0415  (xml)

        write_report(junit_suites(suites), options.junit)
    for name, verdicts in suites.items():
        write_gate_reports(verdicts, name, junit_file=None, github=options.github)


def _tasks(paths: Sequence[str], base: Path | None) -> list[Task]:
    """Tasks of all directories, checked before anything is read. Raises GrammarError."""
    tasks = [
        Task(path, Path(path) if base is None else base / Path(path).resolve().name)
        for path in paths
    ]
    for target, count in Counter(task.target.resolve() for task in tasks).items():
        if count > 1:
            raise GrammarError(f"{count} directories would be written to {printable(str(target))}")
    for task in tasks:
        if base is None and Path(task.path).is_file():
            raise GrammarError(
                f"{printable(task.path)} is a file: give its directory, or --output-dir"
            )
        for name in NAMES:
            _check_ours(task.target / name)
    return tasks


def _check_ours(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except FileNotFoundError:
        return
    if head and not _OURS[path.name].match(head):
        message = (
            f"{printable(str(path))} is not by ccltui and is not overwritten; give --output-dir"
        )
        raise GrammarError(message)


def _write(
    task: Task, measured: Measured, selection: ViewOptions, verdicts: Sequence[Verdict]
) -> None:
    from ccltui.report.writers import write_csv, write_json  # noqa: PLC0415  (orjson)

    entries = [Entry(result, metric.headline) for metric, result in measured.results]
    report = Report(measured.trace, selection, entries, verdicts, detail=False)
    task.target.mkdir(parents=True, exist_ok=True)
    for name, write in zip(NAMES, (write_json, write_csv), strict=True):
        write_file(write(report), task.target / name)


def _row(task: Task, measured: Measured, *, written: bool) -> tuple[str, ...]:
    statuses = Counter(result.status for _, result in measured.results)
    counts = (str(statuses[status]) for status in ("ok", "partial", "unavailable"))
    where = printable(str(task.target / NAMES[0])) if written else "nothing"
    return (printable(task.path), str(measured.trace.ranks), *counts, where)
