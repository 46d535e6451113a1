"""``ccltui diff A B``: check whether two sides are comparable, and compare them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands import diff_jobs
from ccltui.commands.print_metrics import gate_status, print_gates, write_gate_reports
from ccltui.parsers.errors import GrammarError
from ccltui.report.gates import judge_details
from ccltui.report.output import check_target, print_message, write_report
from ccltui.verbs import usage_of

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
    result = args.Parser(
        prog=PROG, usage=usage_of("diff"), description=_DESCRIPTION, epilog=_EPILOG
    )
    result.add_argument("a", metavar="A", help="traces, run, cluster benchmark or profile")
    result.add_argument(
        "b", nargs="?", metavar="B", help="what is compared with A; default: A, in parts of it"
    )
    result.add_argument(
        "--format", choices=FORMATS, help="default: that of the ending of FILE, else table"
    )
    result.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all")
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
    diff_jobs.add_arguments(result)
    args.add_general(result)
    return result


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui diff``.

    Returns:
        0; 3 where the sides are not comparable; 4 where a condition of ``--fail-if`` holds.
    """
    options = parser().parse_args(arguments)
    args.settle_format(options, FORMATS, "table")
    for target in (options.output, options.junit):
        problem = check_target(target)
        if problem is not None:
            raise GrammarError(problem)
    in_parts = bool(options.only_a or options.only_b)
    if options.b is None and not in_parts:
        raise GrammarError("the following arguments are required: B, or --a and --b for parts of A")
    # A wrong command line is refused before numpy is imported.
    from ccltui.metrics.compare.sides import are_jobs, side, with_runs  # noqa: PLC0415

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
    from ccltui.metrics.compare.compare_profiles import ProfileComparison  # noqa: PLC0415
    from ccltui.metrics.compare.sides import compare_sides  # noqa: PLC0415
    from ccltui.report.diff_writers import WRITERS, gate_values, headline  # noqa: PLC0415

    found = compare_sides(a, b, runs_vary_pct=options.runs_vary)
    if isinstance(found, ProfileComparison):
        from ccltui.report import profile_writers as profiles  # noqa: PLC0415

        write_report(profiles.PROFILE_WRITERS[options.format](found), options.output)
        return _gated(options, profiles.gate_values(found), "")
    if found.comparability.verdict == "unknown" and a.has_traces and b.has_traces:
        return _compare_jobs(options)  # the results of the runs state too little of their work
    write_report(WRITERS[options.format](found), options.output)
    refused = found.verdict == "not comparable"
    status = _gated(options, gate_values(found), found.why if refused else "")
    if refused and options.format != "table":
        print_message(headline(found))
    return exit_codes.worst(status, exit_codes.REFUSED if refused else exit_codes.OK)


def _compare_jobs(options: argparse.Namespace) -> int:
    found, is_whole = diff_jobs.compare(options)
    from ccltui.report.job_diff.diff_document import gate_values  # noqa: PLC0415
    from ccltui.report.job_diff.diff_sections import headline  # noqa: PLC0415
    from ccltui.report.job_diff.job_diff_writers import JOB_WRITERS  # noqa: PLC0415

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
