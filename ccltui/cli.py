"""Command line of ``ccltui``: a verb with its arguments, or a trace directory.

Imports little: a wrong command line is refused before numpy is imported, and neither textual nor
rich is imported unless the explorer opens.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands import explore
from ccltui.commands.loading import LoadOptions, add_functions, use_functions
from ccltui.config import read_config
from ccltui.parsers.errors import GrammarError, NotFoundError
from ccltui.verbs import PROG, VERBS, usage

_DESCRIPTION = """\
Show all ranks of a training job at once, on one clock. DIR is a directory of traces, or one trace
file. A first argument that is not a verb is a directory; write ./demo for one named like a verb."""
_EPILOG = "\n".join(
    [
        "Data goes to standard output, everything else to standard error. Exit status:",
        *(f"{code:>5}  {meaning}" for code, meaning in exit_codes.MEANINGS),
    ]
)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui`` with its command-line arguments and return the exit status."""
    if arguments and arguments[0] in VERBS:
        try:
            return _verb(arguments[0])(arguments[1:])
        except GrammarError as error:
            unknown = error.message.startswith("unrecognized arguments")
            if not (unknown and Path(arguments[0]).is_dir()):
                raise
            hint = f"for the directory of that name write ./{arguments[0]}"
            raise GrammarError(f"{error}; {hint}") from error
    try:
        options = parser().parse_args(arguments)
    except GrammarError as error:
        hint = _verb_hint(arguments[0]) if arguments and not Path(arguments[0]).exists() else ""
        raise GrammarError(f"{error}{hint}") from error
    if options.list_metrics:
        use_functions(options)
        from ccltui.commands import list_metrics  # noqa: PLC0415

        return list_metrics.run()
    if options.keys:
        return explore.print_keys(read_config(options.config))
    if options.trace is None:
        raise GrammarError(
            f"no trace directory given: {PROG} DIR opens one, {PROG} demo writes a synthetic one; "
            f"see {PROG} --help"
        )
    if options.follow:
        return _follow(options, arguments)
    _refuse_options_of_follow(options)
    if options.metric or options.fail_if:
        if options.other is not None:
            raise GrammarError(
                "metrics are of one directory; ccltui diff A B prints what differs between two"
            )
        return _print_metrics(options)
    return _explore(options, arguments)


def _verb(name: str) -> Callable[[Sequence[str]], int]:
    """Import the module of a verb and return its ``run``; the other verbs stay unimported."""
    module = importlib.import_module(f"ccltui.commands.{VERBS[name].module}")
    run_verb: Callable[[Sequence[str]], int] = module.run
    return run_verb


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui DIR``."""
    result = args.Parser(prog=PROG, usage=usage(), description=_DESCRIPTION, epilog=_EPILOG)
    result.add_argument("trace", nargs="?", metavar="DIR", help="trace directory, or one file")
    result.add_argument(
        "other", nargs="?", metavar="B", help="a second directory: its Compare pane compares both"
    )
    args.add_runs_vary(result)
    _add_report(result)
    _add_follow(result)
    args.add_selection(result)
    args.add_capture(result)
    args.add_loading(result)
    args.add_memory(result)
    explore.add_arguments(result)
    args.add_general(result)
    return result


def _add_report(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("metrics without the explorer")
    group.add_argument(
        "--list-metrics", action="store_true", help="print name, unit, requirements and definition"
    )
    args.add_metric(
        group,
        "compute and print this metric; may be repeated; all: every metric "
        "but the tables kernels, operators and modules",
    )
    add_functions(group)
    group.add_argument(
        "--format",
        type=args.grammar(args.report_format),
        metavar="NAME",
        help=f"{', '.join(args.FORMATS)}, or that of a plug-in; default: that of the ending of "
        "FILE, else table",
    )
    group.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all")
    group.add_argument(
        "--detail",
        action="store_true",
        help="rows per rank, type, group and step in table and csv too (JSON always has them)",
    )
    group.add_argument(
        "--explain-cost",
        action="store_true",
        help="print on standard error which facts each metric asked for, with their CPU seconds",
    )
    args.add_gate(
        group,
        'exit with 4 if the condition holds: "straggler_lag.mean_lag_us > 500"; without a key it '
        "tests the metric's headline value; may be repeated",
    )
    args.add_gate_reports(group)


def _add_follow(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("while the job runs")
    group.add_argument(
        "--follow",
        action="store_true",
        help="look at DIR at every interval. The explorer takes in files that come or grow. With "
        "--format jsonl or --metric NAME, or without a terminal, print a JSON line at each change; "
        "--output FILE gets the report of the last state; ctrl+c or SIGTERM ends it",
    )
    group.add_argument(
        "--interval",
        type=args.grammar(args.seconds),
        metavar="SECONDS",
        help="seconds between two checks; a file is complete when it has not changed for that "
        "long and its reader finds its end; default: 10",
    )
    group.add_argument(
        "--until-idle",
        type=args.grammar(args.seconds),
        metavar="SECONDS",
        help="stop checking when nothing has changed for that long; incomplete files are then read "
        "as they are, and a command that prints ends",
    )
    group.add_argument(
        "--alert",
        action="append",
        default=[],
        type=args.grammar(args.gate),
        metavar="EXPR",
        help="a condition as of --fail-if: print a line, or show it in the explorer, when it "
        "becomes true, and exit with 5 in the end; may be repeated",
    )
    group.add_argument(
        "--alert-command",
        type=args.grammar(args.command),
        metavar="CMD",
        help="program with arguments, started without a shell at every alert; its environment "
        "has CCLTUI_ALERT, CCLTUI_ALERT_VALUE and CCLTUI_ALERT_PATH",
    )


def _refuse_options_of_follow(options: argparse.Namespace) -> None:
    for name in ("interval", "until_idle", "alert", "alert_command"):
        if getattr(options, name):
            raise GrammarError(f"--{name.replace('_', '-')} needs --follow")


def _follow(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Follow a directory in the explorer, or headless with numbers or no terminal."""
    if options.format not in (None, "jsonl"):
        raise GrammarError("--follow prints JSON lines: --format jsonl")
    refused = {
        "a second directory": options.other is not None,
        "--fail-if": bool(options.fail_if),
        "--no-cache": options.no_cache,
        "--sample-ranks": options.sample_ranks is not None,
        "--serve": options.serve is not None,
        "--explain-cost": options.explain_cost,
    }
    options.interval = options.interval or args.INTERVAL_S
    for name, given in refused.items():
        if given:
            raise GrammarError(f"--follow does not go with {name}")
    if options.alert_command is not None and not options.alert:
        raise GrammarError("--alert-command needs --alert EXPR")
    if options.until_idle is not None and options.until_idle < options.interval:
        raise GrammarError("--until-idle is shorter than --interval")
    prints = options.format is not None or options.output is not None or bool(options.metric)
    if not prints and explore.has_terminal():
        return _explore(options, arguments)
    options.format = None
    args.settle_format(options, args.FORMATS, "json")
    from ccltui.commands import follow_command  # noqa: PLC0415

    use_functions(options)
    return follow_command.run(
        follow_command.FollowOptions(
            metrics=tuple(options.metric),
            alerts=tuple(options.alert),
            command=options.alert_command,
            interval_s=options.interval,
            until_idle_s=options.until_idle,
            output=options.output,
            format=options.format,
            debug=options.debug,
        ),
        LoadOptions.of(options.trace, options),
        args.selection_of(options),
    )


def _print_metrics(options: argparse.Namespace) -> int:
    from ccltui.commands import print_metrics  # noqa: PLC0415

    args.settle_format(options, args.FORMATS, "table")
    use_functions(options)
    loading, selection = LoadOptions.of(options.trace, options), args.selection_of(options)
    return print_metrics.run(options, loading, selection)


def _explore(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    headless = {
        "--format": options.format is not None,
        "--output": options.output is not None,
        "--detail": options.detail,
        "--explain-cost": options.explain_cost,
        "--junit": options.junit is not None,
        "--github": options.github,
    }
    for name, given in headless.items():
        if given:
            raise GrammarError(f"{name} needs --metric NAME: the explorer prints nothing")
    if not options.follow:  # a followed directory may come later
        _check_exists(options.trace)
    if options.runs_vary is not None and options.other is None:
        raise GrammarError("--runs-vary needs a second directory to compare with")
    if options.other is not None:
        _check_exists(options.other)
    if options.serve is not None:
        return explore.serve(options, arguments)
    if not explore.has_terminal():
        raise GrammarError(
            f"{explore.no_terminal()}; without one ccltui explain DIR shows what costs time, and "
            "--metric NAME or --metric all prints numbers"
        )
    loading, selection = LoadOptions.of(options.trace, options), args.selection_of(options)
    return explore.run(
        options, loading, selection, against=options.other, runs_vary_pct=options.runs_vary
    )


def _check_exists(path: str) -> None:
    """Raise NotFoundError for a missing path, before the explorer opens."""
    if Path(path).exists():
        return
    raise NotFoundError(f"no such file or directory{_verb_hint(path)}", path=path)


_OTHER_WORDS: Final = {"compare": "diff"}
"""Verbs of other programs, and the one that does the same here."""


def _verb_hint(word: str) -> str:
    """Return the verb that a word may stand for, "" where none is like it."""
    import difflib  # noqa: PLC0415  (only errors need it)

    near = [_OTHER_WORDS[word]] if word in _OTHER_WORDS else difflib.get_close_matches(word, VERBS)
    return f"; a verb must come first: {PROG} {near[0]} …" if near else ""
