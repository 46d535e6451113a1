"""``ccltui diff A B``: check whether two runs are comparable, and compare them."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.parsers.errors import GrammarError
from ccltui.report.output import check_target, print_message, write_report
from ccltui.verbs import usage_of

PROG = "ccltui diff"
_DESCRIPTION = """\
Compare run B with run A: run directories (a folder of repeated runs counts as several), two
cluster benchmarks, or folders that hold only texts of nsys stats. Of runs the command first checks
whether both did the same work, then prints throughput, step times, losses and calls of NCCL per
backward pass, each with its spread and a verdict: better, worse, not distinguishable, or not
comparable and why. Of texts it prints ranges and kernels beside each other, and what they
do not tell."""
FORMATS = ("table", "csv", "json")
_DEFAULT_NOISE_PCT = 5.0


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui diff``."""
    result = args.Parser(prog=PROG, usage=usage_of("diff"), description=_DESCRIPTION)
    result.add_argument(
        "a", metavar="A", help="run directory, cluster benchmark or profile to compare to"
    )
    result.add_argument(
        "b", metavar="B", help="run directory, cluster benchmark or profile to compare with A"
    )
    result.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    result.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all")
    result.add_argument(
        "--noise",
        type=args.grammar(_percent),
        default=_DEFAULT_NOISE_PCT,
        metavar="PCT",
        help="assumed spread of a number in percent where each side has only one value of it; "
        f"default: {_DEFAULT_NOISE_PCT:g}",
    )
    args.add_general(result)
    return result


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui diff``; return 0, or 3 where the runs are not comparable."""
    options = parser().parse_args(arguments)
    problem = check_target(options.output)
    if problem is not None:
        raise GrammarError(problem)
    # A wrong command line is refused before numpy is imported.
    from ccltui.metrics.compare.compare_profiles import ProfileComparison  # noqa: PLC0415
    from ccltui.metrics.compare.sides import compare_sides, side  # noqa: PLC0415
    from ccltui.report.diff_writers import WRITERS, headline  # noqa: PLC0415

    found = compare_sides(side(options.a), side(options.b), noise_pct=options.noise)
    if isinstance(found, ProfileComparison):
        from ccltui.report.profile_writers import PROFILE_WRITERS  # noqa: PLC0415

        write_report(PROFILE_WRITERS[options.format](found), options.output)
        return exit_codes.OK
    write_report(WRITERS[options.format](found), options.output)
    if found.verdict != "not comparable":
        return exit_codes.OK
    if options.format != "table":
        print_message(headline(found))
    return exit_codes.REFUSED


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise GrammarError(f"{text[:40]!r} is not a percentage from 0")
    return value
