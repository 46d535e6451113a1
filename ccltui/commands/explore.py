"""``ccltui DIR`` on a terminal: the explorer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, cast

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, cache_directory, name_nsys, rank_map_of
from ccltui.config import COLORS, DRIVERS, THEMES, Config, read_config
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError

_PORT: Final = 8790


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments that only the explorer heeds."""
    group = parser.add_argument_group("explorer")
    group.add_argument(
        "--driver",
        choices=DRIVERS,
        help="slim (default) sends only what changed on the screen; plain is for terminals that "
        "it confuses",
    )
    group.add_argument("--color", choices=COLORS, help="default: auto")
    group.add_argument(
        "--theme",
        choices=THEMES,
        help="ansi: the terminal's own sixteen colours; default: auto, after its background",
    )
    group.add_argument(
        "--ascii", action="store_true", default=None, help="draw with ASCII characters only"
    )
    group.add_argument(
        "--no-mouse",
        dest="mouse",
        action="store_false",
        default=None,
        help="leave the mouse to the terminal",
    )
    group.add_argument(
        "--record", metavar="FILE", help="write what is typed and clicked to a new FILE"
    )
    group.add_argument("--replay", metavar="FILE", help="do what was recorded, then go on")
    group.add_argument(
        "--serve",
        nargs="?",
        type=args.grammar(_port),
        const=_PORT,
        metavar="PORT",
        help=f"show it in a browser of this machine only; default port: {_PORT}; needs the extra "
        "ccltui[serve]",
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        help="settings: keys, theme, ...; default: ~/.config/ccltui/config.toml",
    )
    group.add_argument(
        "--keys", action="store_true", help="print the keys as the settings have them"
    )


def has_terminal() -> bool:
    """Whether both input and output are a terminal."""
    if in_browser():
        return True
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def in_browser() -> bool:
    """Whether textual-serve started this process: then its pipes are the terminal."""
    return os.environ.get("TEXTUAL_DRIVER", "").startswith("textual.drivers.web_driver:")


def serve(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Show the explorer to browsers of this machine until interrupted; the exit status."""
    # textual is imported nowhere else on the way to here.
    from ccltui.tui.serve import serve as serve_explorer  # noqa: PLC0415

    return serve_explorer(arguments, options.serve)


def _port(text: str) -> int:
    """A port that needs no privileges."""
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise GrammarError(f"{text!r} is not a port from 1024 to 65535")
    return int(text)


def run(options: argparse.Namespace, loading: LoadOptions, selection: ViewOptions) -> int:
    """Open the explorer; the exit status. Raises GrammarError for what only numbers heed."""
    # textual and rich are imported nowhere else on the way to here.
    from ccltui.tui import run as run_explorer  # noqa: PLC0415
    from ccltui.tui.options import ColorName, DriverName, ExplorerOptions, ThemeName  # noqa: PLC0415

    _refuse_headless(selection)
    config = read_config(options.config)
    name_nsys(loading)
    with cache_directory(loading) as cache_dir:
        return run_explorer(
            loading.path,
            options=ExplorerOptions(
                rank_map=rank_map_of(loading),
                iteration=loading.iteration,
                capture=loading.capture,
                view=selection,
                cache_dir=cache_dir,
                jobs=loading.jobs,
                driver=cast("DriverName", options.driver or config.driver or "slim"),
                color=cast("ColorName", options.color or config.color or "auto"),
                theme=cast("ThemeName", options.theme or config.theme or "auto"),
                ascii=_first(options.ascii, config.ascii, default=False),
                mouse=_first(options.mouse, config.mouse, default=True),
                record=options.record,
                replay=options.replay,
                keys=_keys_of(config),
            ),
        )


def _keys_of(config: Config) -> dict[str, tuple[str, ...]]:
    """The keys that the settings change. Raises GrammarError with the name of their file."""
    if not config.keys:
        return {}
    from ccltui.tui.input.key_table import checked  # noqa: PLC0415  (the registry of actions)

    return checked(config)


def _first(asked: bool | None, set_: bool | None, *, default: bool) -> bool:
    """What the command line asks for, else what the settings say."""
    given = set_ if asked is None else asked
    return default if given is None else given


def print_keys(config: Config) -> int:
    """Print every key of the explorer, and what the settings change about it; the exit status."""
    from ccltui.report.output import write_report  # noqa: PLC0415
    from ccltui.report.text_layout import text_bytes  # noqa: PLC0415
    from ccltui.tui.input.key_table import key_lines  # noqa: PLC0415  (the registry of actions)

    write_report(text_bytes(key_lines(config)), None)
    return exit_codes.OK


def _refuse_headless(selection: ViewOptions) -> None:
    """A group is chosen in the explorer: its panes show all of them side by side."""
    if selection.group is not None:
        raise GrammarError("--group needs --metric NAME: in the explorer c chooses a communicator")
