"""Command-line arguments shared by the commands, and the layout of their help.

This module does not import numpy: a command line is checked before anything is loaded.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, get_args

from ccltui.metrics.view.view_options import Span, ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.store.cache_place import parse_size
from ccltui.parsers.window import parse_ranks, parse_steps, parse_window
from ccltui.verbs import PROG, usage_of

if TYPE_CHECKING:
    from ccltui.report.gates import Gate

FORMATS: Final = ("table", "json", "jsonl", "csv", "openmetrics")
"""Built-in output formats of reports of metrics."""
PROFILE_MODES: Final = ("auto", "torch", "nsys")
SPANS: Final[tuple[Span, ...]] = get_args(Span)
INTERVAL_S: Final = 10.0
"""Seconds between two looks of --follow; a file server answers one at 1,000 files in under one."""
_HELP_WIDTH = 92

T = TypeVar("T")


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Format help with a fixed width and style, independent of terminal and Python version."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=_HELP_WIDTH)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return str(action.metavar or action.dest)
        names = ", ".join(action.option_strings)
        return names if action.nargs == 0 else f"{names} {self._value_name(action)}"

    def _value_name(self, action: argparse.Action) -> str:
        if action.metavar is not None:
            return str(action.metavar)
        if action.choices is not None:
            return "{" + ",".join(str(choice) for choice in action.choices) + "}"
        return action.dest.upper()


class Parser(argparse.ArgumentParser):
    """An argument parser that raises GrammarError; abbreviated options are errors."""

    def __init__(
        self, *, prog: str, usage: str, description: str, epilog: str | None = None
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        self.given: list[str] = []
        """The arguments that are being parsed."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Keep what is given: ``--version`` ends the command before what follows it is parsed."""
        self.given = list(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise GrammarError instead of printing the usage."""
        raise GrammarError(message)


def of_verb(verb: str, description: str, epilog: str | None = None, usage: str = "") -> Parser:
    """Return a parser of ``ccltui VERB`` without arguments; its usage is by default the verb's."""
    return Parser(
        prog=f"{PROG} {verb}",
        usage=usage or usage_of(verb),
        description=description,
        epilog=epilog,
    )


def completed(parser: Parser, *groups: Callable[[Parser], object]) -> Parser:
    """Return a parser to which each of ``groups`` and `add_general` have added their options."""
    for add in (*groups, add_general):
        add(parser)
    return parser


def grammar(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return ``parse`` as an argparse type that reports the message of a GrammarError."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except GrammarError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def positive(text: str) -> int:
    """Parse a whole number above 0. Raises GrammarError."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) == 0:
        raise GrammarError(f"{text[:40]!r} is not a whole number above 0")
    return int(text)


def number(text: str, least: float, most: float, meaning: str) -> float:
    """Parse a number in these bounds. Raises GrammarError: that it is not ``meaning``."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise GrammarError(f"{text[:40]!r} is not {meaning}")
    return value


def seconds(text: str) -> float:
    """Parse seconds from a tenth on. Raises GrammarError."""
    return number(text, 0.1, 1e6, "a number of seconds from 0.1 to 1,000,000")


def command(text: str) -> str:
    """Return ``text``, a program with arguments. Raises GrammarError for quotes without an end."""
    import shlex  # noqa: PLC0415  (rare)

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise GrammarError(f"{text[:80]!r} is not a command: {error}") from None
    if not words:
        raise GrammarError("the command is empty")
    return text


def natural(text: str) -> int:
    """Parse a whole number, 0 included. Raises GrammarError."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise GrammarError(f"{text[:40]!r} is not a whole number")
    return int(text)


def assignment(text: str) -> tuple[str, str]:
    """Parse name and value of ``NAME=VALUE``. Raises GrammarError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise GrammarError(f"{text[:80]!r} is not NAME=VALUE, as in tp=4")
    return name.strip(), value.strip()


def add_general(parser: argparse.ArgumentParser) -> None:
    """Add ``--debug`` and ``--log``, which `process` handles, ``--version`` and ``--verbose``."""
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="append a log of this run to FILE: what was read, in which time, and all messages",
    )
    parser.add_argument(
        "--version", action=_PrintVersion, nargs=0, help="print the version and exit"
    )
    parser.add_argument(
        "--verbose",
        action=_NeedsVersion,
        nargs=0,
        help="with --version: also versions of Python and packages, compiled modules, and paths",
    )


class _PrintVersion(argparse.Action):
    """Print the version, and the packages that add metrics, formats, panes or writers."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        from ccltui.verbs import version_lines  # noqa: PLC0415

        lines = version_lines(parser.prog)
        if isinstance(parser, Parser) and "--verbose" in parser.given:
            from ccltui.doctor.environment_checks import version_details  # noqa: PLC0415  (rare)

            lines += version_details()
        sys.stdout.write("\n".join(lines) + "\n")
        parser.exit()


class _NeedsVersion(argparse.Action):
    """Refuse ``--verbose`` without ``--version``, which reads it by itself."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if isinstance(parser, Parser) and "--version" not in parser.given:
            parser.error("--verbose needs --version")


def add_metric(parser: argparse._ActionsContainer, help_text: str) -> None:
    """Add ``--metric`` with the help text of one command."""
    parser.add_argument("--metric", action="append", default=[], metavar="NAME", help=help_text)


def gate(text: str) -> Gate:
    """Parse a condition of ``--fail-if``. Raises GrammarError."""
    from ccltui.report.gates import parse_gate  # noqa: PLC0415  (most command lines have no condition)

    return parse_gate(text)


def report_format(text: str) -> str:
    """Parse an output format: a built-in one, or that of a plug-in. Raises GrammarError."""
    if text in FORMATS:
        return text
    from ccltui.parsers.plug_ins import WRITERS, installed  # noqa: PLC0415  (rare)

    others = [one.name for one in installed(WRITERS)]
    if text not in others:
        raise GrammarError(f"{text[:40]!r} is none of {', '.join((*FORMATS, *others))}")
    return text


_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    ".json": ("json",),
    ".jsonl": ("jsonl",),
    ".ndjson": ("jsonl",),
    ".csv": ("csv",),
    ".md": ("md", "markdown"),
    ".markdown": ("md", "markdown"),
    ".html": ("html",),
    ".htm": ("html",),
    ".txt": ("table", "text", "column", "md"),
    ".prom": ("openmetrics",),
}
"""Names of the format that a file ending states; a command has at most one of them."""


def add_output(
    parser: argparse._ActionsContainer, formats: Collection[str], default: str, meaning: str = ""
) -> None:
    """Add ``--format`` and ``--output`` of a command that writes one of these formats.

    Args:
        parser: what they are added to.
        formats: names of the formats.
        default: the format where neither the option nor the ending of the output states one.
        meaning: what is said of the formats before that.
    """
    parser.add_argument(
        "--format",
        choices=tuple(formats),
        help=f"{meaning}default: that of the ending of FILE, else {default}",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all")


def settle_format(options: argparse.Namespace, formats: Collection[str], default: str) -> None:
    """Set ``options.format`` where none is given: by the ending of the output, else the default.

    Args:
        options: With ``format``, None where none is given, and ``output``.
        formats: Formats that the command writes.
        default: The format where the ending states none.

    Raises:
        GrammarError: The ending is that of a format which the command does not write.
    """
    target = options.output or "-"
    ending = Path(target).suffix.lower()
    stated = _ENDINGS.get(ending, ())
    fitting = [name for name in stated if name in formats]
    if options.format is None:
        if stated and not fitting:
            known = f"{', '.join(formats)}; --format chooses one whatever the ending"
            raise GrammarError(f"{target} ends in {ending}, and this is written as {known}")
        options.format = fitting[0] if fitting else default
    elif stated and options.format not in stated:
        from ccltui.report.output import print_message  # noqa: PLC0415  (rare)

        print_message(f"{target} is written as {options.format}, as --format states")


def add_gate(parser: argparse._ActionsContainer, help_text: str) -> None:
    """Add ``--fail-if`` with the help text of one command."""
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        type=grammar(gate),
        metavar="EXPR",
        help=help_text,
    )


def add_gate_reports(parser: argparse._ActionsContainer) -> None:
    """Add the options that write the outcome of gates for CI systems."""
    parser.add_argument(
        "--junit", metavar="FILE", help="write the outcome of every --fail-if as JUnit XML to FILE"
    )
    parser.add_argument(
        "--github",
        action="store_true",
        help="print every --fail-if that holds as an annotation of GitHub Actions, on standard "
        "error",
    )


def percent(text: str) -> float:
    """Parse a percentage from 0. Raises GrammarError."""
    return number(text, 0, sys.float_info.max, "a percentage from 0")


def add_runs_vary(parser: argparse._ActionsContainer, *older: str) -> None:
    """Add the option that states the spread between runs; ``older`` are its former names."""
    parser.add_argument(
        "--runs-vary",
        *older,
        dest="runs_vary",
        type=grammar(percent),
        metavar="PCT",
        help="by how many percent two runs of one command differ here: a difference beyond it, and "
        "beyond the spread within the runs, is better or worse; without it one run a side is not "
        "distinguishable from noise between runs",
    )


def add_capture(parser: argparse.ArgumentParser) -> None:
    """Add the options that select a capture and assign ranks to files."""
    group = parser.add_argument_group("what to open")
    group.add_argument(
        "--iteration",
        type=grammar(natural),
        metavar="N",
        help="the capture of the folder iteration_N; default: the last complete one",
    )
    group.add_argument(
        "--capture", metavar="NAME", help="the capture of that name (ccltui doctor lists them)"
    )
    group.add_argument(
        "--rank-map",
        metavar="MAP",
        help='ranks of files that state none: "0=a.json,1=b.json", or @FILE with lines "0 a.json"',
    )
    group.add_argument(
        "--sample-ranks",
        type=grammar(positive),
        metavar="N",
        help="read N ranks only: whole process groups at even distances, the first and the last "
        "among them; results are partial",
    )


def _size(text: str) -> str:
    """Return ``text``, a size. Raises GrammarError."""
    parse_size(text)
    return text


def add_loading(parser: argparse.ArgumentParser) -> None:
    """Add the options for nsys, worker processes and the column cache."""
    group = parser.add_argument_group("loading")
    group.add_argument(
        "--nsys",
        metavar="PATH",
        help="the nsys that exports .nsys-rep and .qdrep reports; default: CCLTUI_NSYS, else the "
        "one on PATH",
    )
    group.add_argument(
        "--jobs",
        type=grammar(positive),
        metavar="N",
        help="worker processes; default: one per allowed CPU, at most 8",
    )
    add_cache_dir(group)
    group.add_argument(
        "--no-cache", action="store_true", help="read the files again and cache nothing"
    )


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add the option that frees intermediates between metrics."""
    parser.add_argument_group("memory").add_argument(
        "--memory",
        type=grammar(_size),
        metavar="SIZE",
        help="where the process takes more than this after a metric, as in 1G, free what later "
        "metrics can compute again: less memory, more time. The calls of all ranks and what a "
        "single metric needs are in memory in any case; default: nothing is freed",
    )


def add_cache_dir(group: argparse._ActionsContainer) -> None:
    """Add the option for the directory of the column cache."""
    group.add_argument(
        "--store",
        "--cache-dir",
        dest="cache_dir",
        type=Path,
        metavar="DIR",
        help="directory of the column store; default: CCLTUI_STORE, CCLTUI_CACHE_DIR, else ccltui "
        "in the user's cache directory",
    )
    group.add_argument(
        "--store-limit",
        type=grammar(_size),
        metavar="SIZE",
        help="size above which the least recently used columns are removed (500G, 2T); default: "
        "CCLTUI_STORE_LIMIT, else 20G",
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that restrict the numbers and panes."""
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--window",
        type=grammar(parse_window),
        metavar="A/B",
        help="time window since the earliest event, in the grammar of nsys --filter-time: "
        "4s420ms/35s390ms; either side may be empty. Write --window=-5ms/1s for a leading minus",
    )
    group.add_argument(
        "--steps", type=grammar(parse_steps), metavar="I-J", help="steps I to J, both included"
    )
    group.add_argument(
        "--ranks", type=grammar(parse_ranks), metavar="LIST", help="only these ranks: 0-7,16"
    )
    group.add_argument("--group", metavar="NAME", help="only the collectives of this process group")
    group.add_argument(
        "--span",
        choices=SPANS,
        default="steps",
        help="measured time: steps (the whole trace where none are marked), inner (without the "
        "first and the last step), or trace (all of it)",
    )
    group.add_argument(
        "--profile-mode",
        choices=PROFILE_MODES,
        default="auto",
        help="traces to use: torch (Kineto), nsys, or auto: Kineto unless it lacks device work",
    )
    group.add_argument(
        "--raw-clocks",
        action="store_true",
        help="leave the clocks of the hosts as recorded instead of aligning them",
    )
    group.add_argument(
        "--batch-size",
        type=grammar(positive),
        metavar="N",
        help="sequences per step of the whole job; replaces the value of the workload card",
    )
    group.add_argument(
        "--seq-len",
        type=grammar(positive),
        metavar="N",
        help="tokens per sequence; replaces the value of the workload card",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        type=grammar(assignment),
        metavar="NAME=VALUE",
        help="a field of the workload card (tp=4, dp_shard=8) or a parameter of a metric (see "
        "docs/metrics.md); replaces the value of the card; may be repeated",
    )


def selection_of(options: argparse.Namespace) -> ViewOptions:
    """Restriction of the numbers from parsed options."""
    overrides: dict[str, object] = dict(options.set)
    if options.batch_size is not None:
        overrides |= {"batch_size": options.batch_size, "batch_size_scope": "global"}
    if options.seq_len is not None:
        overrides["seq_len"] = options.seq_len
    return ViewOptions(
        window=options.window,
        steps=options.steps,
        ranks=options.ranks,
        group=options.group,
        span=options.span,
        profile_mode=options.profile_mode,
        raw_clocks=options.raw_clocks,
        overrides=overrides,
    )
