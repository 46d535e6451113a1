"""``ccltui diff A B``: load two sides, check whether they are comparable, and compare them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadedJob, LoadOptions, load_job
from ccltui.commands.print_metrics import gate_status, print_gates, write_gate_reports
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.window import parse_ranks, parse_steps, parse_window
from ccltui.report.gates import judge_details
from ccltui.report.output import print_message, require_target, write_report

if TYPE_CHECKING:
    from ccltui.metrics.compare.compare_jobs import JobComparison
    from ccltui.metrics.compare.job_side import JobTable
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.view.view_options import ViewOptions


_OF_VIEW: Final[Mapping[str, Callable[[str], object]]] = {
    "steps": parse_steps,
    "ranks": parse_ranks,
    "window": parse_window,
    "group": str,
}
_OF_FILES: Final = ("runs", "cluster")
"""Categories of metrics that are read from files beside the traces."""
_OF_LOADING: Final[Mapping[str, Callable[[str], object]]] = {
    "capture": str,
    "iteration": args.natural,
}


class Selected(Struct, frozen=True):
    """One condition of ``--a`` or ``--b``: its name, its value, and the text as it was written."""

    name: str
    value: object
    text: str


def selected(text: str) -> Selected:
    """Parse ``steps=I-J``, ``ranks=LIST``, ``window=A/B`` and the like. Raises GrammarError."""
    name, value = args.assignment(text)
    parse = {**_OF_VIEW, **_OF_LOADING}.get(name)
    if parse is None:
        known = ", ".join((*_OF_VIEW, *_OF_LOADING))
        raise GrammarError(f"{text[:80]!r}: {name[:40]!r} is none of {known}")
    return Selected(name, parse(value), text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of comparisons of traces."""
    group = parser.add_argument_group("parts of traces")
    for side in "ab":
        group.add_argument(
            f"--{side}",
            dest=f"only_{side}",
            action="append",
            default=[],
            type=args.grammar(selected),
            metavar="NAME=VALUE",
            help=f"compare only this part of {side.upper()}: steps=I-J, ranks=LIST, window=A/B, "
            "group=NAME, capture=NAME or iteration=N; may be repeated",
        )
    parser.add_argument(
        "--metrics",
        action="store_true",
        help="compare all metrics of traces too, in tables and in json",
    )
    args.add_selection(parser)
    args.add_capture(parser)
    args.add_loading(parser)


def compare(options: argparse.Namespace) -> tuple[JobComparison, bool]:
    """Return the comparison, and whether all files of both sides were read.

    One job of which two parts are compared is loaded once.

    Raises:
        GrammarError: a selection is invalid.
        TraceError: a side cannot be opened.
    """
    from ccltui.commands.measure import check_overrides, view_of  # noqa: PLC0415  (numpy)
    from ccltui.metrics.compare.compare_jobs import compare_jobs  # noqa: PLC0415
    from ccltui.metrics.compare.job_side import job_table  # noqa: PLC0415
    from ccltui.metrics.compare.metric_changes import measures  # noqa: PLC0415

    selection = args.selection_of(options)
    check_overrides(selection.overrides)
    tables: dict[str, list[JobTable]] = {"a": [], "b": []}
    loaded = dict[LoadOptions, LoadedJob]()
    for label, path, name in _paths(options):
        parts = getattr(options, f"only_{label}")
        loading = _loading(path, parts, options)
        if loading not in loaded:
            loaded[loading] = load_job(loading)
            _print_problems(loaded[loading], loading)
        view = view_of(loaded[loading], _selection(selection, parts))
        table = job_table(view, _name(name, parts))
        if options.metrics:
            table = replace(table, metrics=measures(view, _compared_metrics()))
        tables[label].append(table)
    is_whole = all(one.complete and not one.job.failures for one in loaded.values())
    return compare_jobs(tables["a"], tables["b"], runs_vary_pct=options.runs_vary), is_whole


def _paths(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return side, path and name of each run that is compared."""
    paths = [("a", options.a), ("b", options.b or options.a)]
    paths += [("a", path) for path in options.also_a] + [("b", path) for path in options.also_b]
    names = _names(*(path for _, path in paths))
    return [(label, path, name) for (label, path), name in zip(paths, names, strict=True)]


def _compared_metrics() -> list[Metric]:
    """Metrics of traces: those of runs and machines do not depend on what is selected of them."""
    from ccltui.metrics.registry import metrics  # noqa: PLC0415

    return [m for m in metrics().values() if m.in_all and m.category not in _OF_FILES]


def _loading(path: str, parts: Sequence[Selected], options: argparse.Namespace) -> LoadOptions:
    found: dict[str, Any] = {one.name: one.value for one in parts if one.name in _OF_LOADING}
    return LoadOptions.of(path, options).changed(**found)


def _selection(selection: ViewOptions, parts: Sequence[Selected]) -> ViewOptions:
    found: dict[str, Any] = {one.name: one.value for one in parts if one.name in _OF_VIEW}
    return selection.changed(**found)


def _names(*paths: str) -> list[str]:
    """Return the last names of paths, with folders above them where two paths have one name."""
    folders = [Path(path).resolve().parts for path in paths]
    for depth in range(1, max(map(len, folders))):
        names = ["/".join(one[-depth:]) for one in folders]
        if len(set(names)) == len(set(folders)):
            return names
    return list(paths)


def _name(name: str, parts: Sequence[Selected]) -> str:
    return printable(" ".join([name, *(one.text for one in parts)]))


def _print_problems(loaded: LoadedJob, loading: LoadOptions) -> None:
    from ccltui.commands.measure import print_captures  # noqa: PLC0415  (numpy)

    if loading.iteration is None and loading.capture is None:
        print_captures(loaded.job)
    for failure in loaded.job.failures:
        print_message(failure.error)
    if not loaded.complete:
        print_message(
            f"stopped: {len(loaded.job.read_paths)} of {len(loaded.job.capture.files)} files"
        )


PROG = "ccltui diff"
_DESCRIPTION = """\
Compare B with A: directories of traces (Kineto, nsys or one of each), parts of them (--a and --b; B
may be left out where both are parts of A), run directories (a folder of repeated runs counts as
several), two cluster benchmarks, or folders that hold only texts of nsys stats. Of traces the
command first checks whether both did the same work, then prints the step time, its parts as a
waterfall that adds up to the difference, exposed communication by dimension, stragglers,
collectives, kernels and operators, with intervals by a bootstrap over steps. A step time is called
better or worse only where model, batch, ranks and steps are known to be equal, and where the
spread between runs is known: the spread within a run, over its steps, does not show it. Name
more runs of the same command (--also-a, --also-b), or state by how much two of them differ
(--runs-vary PCT). Otherwise one run a side is not distinguishable from noise between runs; the
difference and its size are printed all the same."""
_EPILOG = """\
Conditions of --fail-if on traces: step_time.change_pct > 3 (step_time alone tests change_pct),
kernels.NAME.delta_ms, parts.NAME.delta_ms, exposed.change_ms. A change is the difference where it
is beyond the noise, and 0 where it is not. On runs: throughput.delta_pct < -3. With one run a side
a gate is judged all the same: the noise is that of the steps then, and the number of the condition
states how far runs may differ, so choose it above the spread of your runs."""
FORMATS = ("table", "csv", "json", "md")
_HEADLINES = ("change_pct", "delta_pct")


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui diff``."""
    result = args.of_verb("diff", _DESCRIPTION, _EPILOG)
    result.add_argument("a", metavar="A", help="traces, run, cluster benchmark or profile")
    result.add_argument(
        "b", nargs="?", metavar="B", help="what is compared with A; default: A, in parts of it"
    )
    args.add_output(result, FORMATS, "table")
    args.add_runs_vary(result, "--noise")
    for letter in "ab":
        result.add_argument(
            f"--also-{letter}",
            action="append",
            default=[],
            metavar="PATH",
            help=f"another run of the command of {letter.upper()}: a run directory or traces, as "
            f"{letter.upper()} is; may be repeated",
        )
    args.add_gate(result, "exit with 4 if the condition holds; may be repeated")
    args.add_gate_reports(result)
    result.add_argument(
        "--traces", action="store_true", help="compare the traces of runs instead of their results"
    )
    return args.completed(result, add_arguments)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui diff``.

    Returns:
        0; 3 where the sides are not comparable; 4 where a condition of ``--fail-if`` holds.
    """
    options = parser().parse_args(arguments)
    args.settle_format(options, FORMATS, "table")
    for target in (options.output, options.junit):
        require_target(target)
    in_parts = bool(options.only_a or options.only_b)
    if options.b is None and not in_parts:
        raise GrammarError("the following arguments are required: B, or --a and --b for parts of A")
    # A wrong command line is refused before numpy is imported.
    from ccltui.metrics.compare.compare_profiles import are_jobs, side, with_runs  # noqa: PLC0415

    if in_parts:
        return _compare_jobs(options)
    a, b = side(options.a), side(options.b)
    if are_jobs(a, b) or (options.traces and a.has_traces and b.has_traces):
        return _compare_jobs(options)
    if a.runs and b.runs:
        a = with_runs(a, [side(path) for path in options.also_a])
        b = with_runs(b, [side(path) for path in options.also_b])
    elif options.also_a or options.also_b:
        raise GrammarError("--also-a and --also-b name run directories or traces")
    from ccltui.metrics.compare.compare_profiles import (  # noqa: PLC0415
        ProfileComparison,
        compare_sides,
    )
    from ccltui.report.diff_writers import (  # noqa: PLC0415
        PROFILE_WRITERS,
        WRITERS,
        gate_values,
        headline,
        profile_gate_values,
    )

    found = compare_sides(a, b, runs_vary_pct=options.runs_vary)
    if isinstance(found, ProfileComparison):
        write_report(PROFILE_WRITERS[options.format](found), options.output)
        return _gated(options, profile_gate_values(found), "")
    if found.comparability.verdict == "unknown" and a.has_traces and b.has_traces:
        return _compare_jobs(options)  # the results of the runs state too little of their work
    write_report(WRITERS[options.format](found), options.output)
    refused = found.verdict == "not comparable"
    status = _gated(options, gate_values(found), found.why if refused else "")
    if refused and options.format != "table":
        print_message(headline(found))
    return exit_codes.worst(status, exit_codes.REFUSED if refused else exit_codes.OK)


def _compare_jobs(options: argparse.Namespace) -> int:
    found, is_whole = compare(options)
    from ccltui.report.job_diff import (  # noqa: PLC0415
        JOB_WRITERS,
        gate_values,
        headline,
    )

    write_report(JOB_WRITERS[options.format](found), options.output)
    refused = found.verdict == "not comparable"
    values = gate_values(found)
    why_null = found.why_unmeasured or found.too_few
    status = _gated(options, values, found.why if refused else "", why_null)
    if refused and options.format != "table":
        print_message(headline(found))
    return exit_codes.worst(
        status,
        exit_codes.OK if is_whole else exit_codes.INPUT,
        exit_codes.REFUSED if refused else exit_codes.OK,
    )


def _gated(
    options: argparse.Namespace, values: Mapping[str, Any], why_not: str, why_null: str = ""
) -> int:
    """Evaluate the conditions; none is decided where the sides are not comparable."""
    verdicts = []
    for gate in options.fail_if:
        first = values.get(gate.metric)
        known = isinstance(first, Mapping) and _HEADLINES[0] in first
        headline = _HEADLINES[0] if known else _HEADLINES[1]
        verdict = judge_details(gate, values, headline, why_null=why_null)
        if why_not and verdict.problem is None:
            verdict = type(verdict)(gate, verdict.value, None, f"not comparable: {why_not}")
        verdicts.append(verdict)
    print_gates(verdicts)
    write_gate_reports(verdicts, PROG, junit_file=options.junit, github=options.github)
    return exit_codes.worst(*(gate_status(verdict) for verdict in verdicts))
