"""``ccltui DIR`` on a terminal: the explorer."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from ccltui.commands.loading import LoadOptions, cache_directory, name_nsys, rank_map_of
from ccltui.report.envelope import Selection
from parsers.errors import GrammarError

DRIVERS: Final = ("slim", "plain")
COLORS: Final = ("auto", "truecolor", "256", "16", "never")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments that only the explorer heeds."""
    group = parser.add_argument_group("explorer")
    group.add_argument(
        "--driver",
        choices=DRIVERS,
        default="slim",
        help="slim sends only what changed on the screen; plain is for terminals it confuses",
    )
    group.add_argument("--color", choices=COLORS, default="auto", help="default: auto")


def has_terminal() -> bool:
    """Whether both input and output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def run(options: argparse.Namespace, loading: LoadOptions, selection: Selection) -> int:
    """Open the explorer; the exit status. Raises GrammarError for what only numbers heed."""
    # textual and rich are imported nowhere else on the way to here.
    from ccltui.tui import run as run_explorer  # noqa: PLC0415
    from ccltui.tui.options import ExplorerOptions  # noqa: PLC0415

    _refuse_headless(selection)
    name_nsys(loading)
    with cache_directory(loading) as cache_dir:
        return run_explorer(
            loading.path,
            options=ExplorerOptions(
                rank_map=rank_map_of(loading),
                iteration=loading.iteration,
                capture=loading.capture,
                window=selection.window,
                ranks=selection.ranks,
                cache_dir=cache_dir,
                jobs=loading.jobs,
                driver=options.driver,
                color=options.color,
                profile_mode=selection.profile_mode,
                raw_clocks=selection.raw_clocks,
            ),
        )


def _refuse_headless(selection: Selection) -> None:
    given = {
        "--steps": selection.steps is not None,
        "--group": selection.group is not None,
        "--span": selection.span != "steps",
        "--batch-size, --seq-len or --set": bool(selection.overrides),
    }
    for name, is_given in given.items():
        if is_given:
            raise GrammarError(f"{name} needs --metric NAME: the explorer does not heed it")
