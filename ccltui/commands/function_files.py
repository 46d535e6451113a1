"""Options that add functions ``metric_cal`` in files to the metrics of a command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ccltui import arguments as args
from ccltui.report.output import print_message

if TYPE_CHECKING:
    from ccltui.metrics.registry import Functions

_TIMEOUT_S = 300


def add_functions(parser: argparse._ActionsContainer) -> None:
    """Add ``--metric-file`` and ``--metric-timeout``."""
    parser.add_argument(
        "--metric-file",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="add the function metric_cal of a file NAME.py as the metric NAME, or those of a "
        "folder NAME/NAME.py, of a folder of such folders, or of a CCL-Bench checkout; their code "
        "is run; may be repeated",
    )
    parser.add_argument(
        "--metric-timeout",
        type=args.grammar(args.positive),
        default=_TIMEOUT_S,
        metavar="S",
        help=f"seconds after which such a function is stopped; default: {_TIMEOUT_S}",
    )


def use_functions(options: argparse.Namespace, *, for_screen: bool = False) -> Functions | None:
    """Add the functions that the options name to the metrics of this process.

    Args:
        options: Parsed options of `add_functions` and ``--debug``.
        for_screen: See `FunctionLimits`.

    Returns:
        The functions, for other processes of this command; None without any option.

    Raises:
        GrammarError: A path has no function.
    """
    if not options.metric_file and options.metric_timeout == _TIMEOUT_S:
        return None
    from ccltui.metrics import registry  # noqa: PLC0415  (orjson, and functions are rare)
    from ccltui.metrics.functions.function_metric import (  # noqa: PLC0415
        FunctionLimits,
        functions_in,
    )

    found = [functions_in(path) for path in options.metric_file]
    functions = registry.Functions(
        tuple(dict.fromkeys(source for one in found for source in one.sources)),
        FunctionLimits(options.metric_timeout, debug=options.debug, for_screen=for_screen),
        tuple(pair for one in found for pair in one.broken),
    )
    registry.use_functions(functions)
    for name, problem in functions.broken:
        print_message(f"metric {name} is skipped: {problem}")
    for source, name in zip(functions.sources, function_names(functions), strict=True):
        if name != source.name:
            print_message(f"{source.shown} is listed as {name}: {source.name} is taken")
    return functions


def function_names(functions: Functions | None) -> tuple[str, ...]:
    """Names of the metrics of functions, in the order of their sources."""
    if functions is None or not functions.sources:
        return ()
    from ccltui.metrics import registry  # noqa: PLC0415

    return registry.names_of(functions.sources)
