"""Clipboard and screenshot actions, and the command line that prints the numbers of the view.

Each performs its effect and returns a scene with a message.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ccltui.parsers import numbers
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.window import Window, format_ranks, format_steps, format_window
from ccltui.tui.moves import inspector
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.pane import drawer_shows, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Shown

if TYPE_CHECKING:
    from textual.app import App

    from ccltui.tui.options import ExplorerOptions


def command_line(scene: Scene, options: ExplorerOptions) -> str:
    """Return the shell command that prints the numbers of the view."""
    pane = pane_in_view(scene)
    inspected = inspector.report(scene) if drawer_shows(scene, Shown.EVENT) else None
    if inspected is not None:
        event = inspected.event
        words = ["ccltui", "inspect", scene.session.path, "--rank", event.rank]
        words += ["--kind", event.group, "--row", str(event.row)]
        # The command computes no metric: it takes no files of metrics.
        return _joined([*words, *_opened(scene, replace(options, functions=None))])
    whole = pane.command(scene)
    if whole is not None:
        return _joined(whole)
    words = ["ccltui", scene.session.path, "--metric", pane.metric(scene)]
    chosen, window = scene.session.filter, _window(scene)
    if window is not None:
        words.append(f"--window={format_window(window)}")
    step = pane.chosen_step(scene)
    if step is not None:
        words += ["--steps", format_steps((step, step))]
    elif chosen.steps is not None:
        words += ["--steps", format_steps(chosen.steps)]
    if chosen.ranks is not None:
        words += ["--ranks", format_ranks(chosen.ranks)]
    communicator = scene.communicator
    if pane.names_communicator and communicator is not None and communicator.group >= 0:
        words += ["--group", communicator.name]
    return _joined([*words, *_opened(scene, options)])


def _joined(words: Sequence[str]) -> str:
    """Join words into a command line that can be pasted into a shell."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Quote ``word``; with octal escapes where a line editor would act on its characters.

    Quotes alone do not help there: ctrl+c in a pasted name ends the line before a shell reads it.
    """
    if safe_text(word) == word:
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{safe_text(plain, _octal)}'"


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def _window(scene: Scene) -> Window | None:
    """Return the measured area, else the window that is set."""
    measured = pane_in_view(scene).measured(scene)
    if measured is not None:
        return Window(measured.start_ns, measured.end_ns)
    return scene.session.filter.window


def _opened(scene: Scene, options: ExplorerOptions) -> list[str]:
    """Return the arguments the explorer was started with, as far as numbers depend on them."""
    words = []
    if options.rank_map:
        pairs = ",".join(f"{rank}={path}" for path, rank in options.rank_map.items())
        words += ["--rank-map", pairs]
    job = scene.session.job
    if job is not None and len(job.discovery.captures) > 1:
        words += ["--capture", job.capture.name]
    if options.sample_ranks is not None:
        words += ["--sample-ranks", str(options.sample_ranks)]
    if options.view.profile_mode != "auto":
        words += ["--profile-mode", options.view.profile_mode]
    if options.view.span != "steps":
        words += ["--span", options.view.span]
    for name, value in options.view.overrides.items():
        words += ["--set", f"{name}={value}"]
    if options.functions is not None:
        for source in options.functions.sources:
            words += ["--metric-file", source.shown]
    return [*words, "--raw-clocks"] if options.view.raw_clocks else words


def copy(put: Callable[[str], None], scene: Scene, options: ExplorerOptions) -> Scene:
    """Copy the command line of the view to the clipboard of the user's terminal."""
    text = command_line(scene, options)
    put(text)
    return replace(scene, said=f"copied: {text}")


def copy_rows(put: Callable[[str], None], scene: Scene) -> Scene:
    """Copy the rows in view to the clipboard with tabs between cells, as spreadsheets expect."""
    from ccltui.tui.actions.export import tabular  # noqa: PLC0415

    text, count = tabular(scene)
    if not count:
        return replace(scene, notice="there is nothing in view to copy")
    put(text)
    return replace(scene, said=f"copied: {numbers.counted(count, 'row')}")


def take_picture(app: App[Any], scene: Scene) -> Scene:
    """Write a screenshot into the current directory."""
    from ccltui.report.output import write_new_file  # noqa: PLC0415
    from ccltui.tui.actions.export import free_name  # noqa: PLC0415
    from ccltui.tui.terminal.screen_picture import screen_picture  # noqa: PLC0415

    path = free_name(f"ccltui-{scene.state.pane}", ".svg")
    try:
        write_new_file(screen_picture(app).encode(), Path(path))
    except OSError as error:
        return replace(scene, notice=f"{path}: {error.strerror}")
    return replace(scene, said=f"picture in {path}")
