"""``ccltui DIR`` on a terminal: open the explorer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import (
    LoadOptions,
    cache_directory,
    rank_map_of,
    set_nsys_path,
    use_functions,
)
from ccltui.config import COLORS, DRIVERS, THEMES, Config, read_config
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError

if TYPE_CHECKING:
    from ccltui.tui.options import FollowSettings

_PORT: Final = 8790


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the explorer."""
    group = parser.add_argument_group("explorer")
    group.add_argument(
        "--driver",
        choices=DRIVERS,
        help="slim (default) sends only the changed cells of the screen; plain is for terminals "
        "that misread its output",
    )
    group.add_argument("--color", choices=COLORS, help="default: auto")
    group.add_argument(
        "--theme",
        choices=THEMES,
        help="ansi: the terminal's own sixteen colours; default: auto, by its background",
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
    group.add_argument("--record", metavar="FILE", help="record keys and clicks in a new FILE")
    group.add_argument("--replay", metavar="FILE", help="repeat a recording, then continue")
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
        "--keys", action="store_true", help="print all keys under the current settings"
    )


def has_terminal() -> bool:
    """Whether both input and output are a terminal on which a cursor can be moved."""
    if in_browser():
        return True
    streams = (sys.stdin, sys.stdout)
    return not _is_dumb() and all(one is not None and one.isatty() for one in streams)


def no_terminal() -> str:
    """State that the explorer cannot open here, without advice."""
    reason = ", and TERM=dumb cannot place text" if _is_dumb() else ""
    return f"the explorer needs a terminal{reason}"


def _is_dumb() -> bool:
    """Whether the terminal prints escapes instead of obeying them, as shells inside editors do."""
    return os.environ.get("TERM") == "dumb"


def in_browser() -> bool:
    """Whether textual-serve started this process, whose pipes are then the terminal."""
    return os.environ.get("TEXTUAL_DRIVER", "").startswith("textual.drivers.web_driver:")


def serve(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Serve the explorer to browsers on this machine until interrupted; return the exit status."""
    # textual is imported nowhere else on the way to here.
    from ccltui.tui.serve import serve as serve_explorer  # noqa: PLC0415

    return serve_explorer(arguments, options.serve)


def _port(text: str) -> int:
    """Parse a port that needs no privileges. Raises GrammarError."""
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise GrammarError(f"{text!r} is not a port from 1024 to 65535")
    return int(text)


def run(
    options: argparse.Namespace,
    loading: LoadOptions,
    selection: ViewOptions,
    against: str | None = None,
    runs_vary_pct: float | None = None,
) -> int:
    """Open the explorer and return the exit status.

    ``against`` is a path to compare with, ``runs_vary_pct`` the spread between runs.

    Raises GrammarError for options that apply to printed metrics only.
    """
    # textual and rich are imported nowhere else on the way to here.
    from ccltui.tui.options import ColorName, DriverName, ExplorerOptions, ThemeName  # noqa: PLC0415
    from ccltui.tui.start import run as run_explorer  # noqa: PLC0415

    _refuse_headless(selection)
    config = read_config(options.config)
    set_nsys_path(loading)
    functions = use_functions(options, for_screen=True)
    follow = _follow_settings(options)
    with cache_directory(loading) as cache_dir:
        return run_explorer(
            loading.path,
            options=ExplorerOptions(
                rank_map=rank_map_of(loading),
                iteration=loading.iteration,
                capture=loading.capture,
                sample_ranks=loading.sample_ranks,
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
                against=against,
                runs_vary_pct=runs_vary_pct,
                keys=_keys_of(config),
                functions=functions,
                follow=follow,
            ),
        )


def _follow_settings(options: argparse.Namespace) -> FollowSettings | None:
    """How the path is followed, None where it is not. Raises GrammarError for unknown metrics."""
    if not getattr(options, "follow", False):  # the demo has no such option
        return None
    from ccltui.commands.measure import find_metric  # noqa: PLC0415  (imports metrics)
    from ccltui.tui.options import FollowSettings as Settings  # noqa: PLC0415

    for gate in options.alert:
        find_metric(gate.metric)
    return Settings(
        interval_s=options.interval,
        until_idle_s=options.until_idle,
        alerts=tuple(options.alert),
        command=options.alert_command,
    )


def _keys_of(config: Config) -> dict[str, tuple[str, ...]]:
    """Keys that the settings change. Raises GrammarError with the name of the settings file."""
    if not config.keys:
        return {}
    from ccltui.tui.input.keymap import checked  # noqa: PLC0415  (the registry of actions)
    from ccltui.tui.plugged_panes import register_plugged_panes  # noqa: PLC0415

    register_plugged_panes()  # their keys can be changed too
    return checked(config)


def _first(option: bool | None, setting: bool | None, *, default: bool) -> bool:
    """Value of the command line, else of the settings, else the default."""
    given = setting if option is None else option
    return default if given is None else given


def print_keys(config: Config) -> int:
    """Print every key of the explorer and changes by the settings; return the exit status."""
    from ccltui.report.output import write_report  # noqa: PLC0415
    from ccltui.report.text_layout import text_bytes  # noqa: PLC0415
    from ccltui.tui.input.keymap import key_lines  # noqa: PLC0415  (the registry of actions)
    from ccltui.tui.plugged_panes import register_plugged_panes  # noqa: PLC0415

    register_plugged_panes()
    write_report(text_bytes(key_lines(config)), None)
    return exit_codes.OK


def _refuse_headless(selection: ViewOptions) -> None:
    """Raise GrammarError for ``--group``: the panes show all groups, and a key selects one."""
    if selection.group is not None:
        raise GrammarError("--group needs --metric NAME: in the explorer c chooses a communicator")
