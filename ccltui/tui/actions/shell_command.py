"""The view as a command line that prints its numbers without the explorer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.window import Window, format_ranks, format_steps, format_window
from ccltui.tui.moves import step_rows
from ccltui.tui.moves.measured_area import span
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state import side_tables
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Pane, Section


def command_line(scene: Scene, options: ExplorerOptions) -> str:
    """What to type for the numbers behind the view."""
    if scene.state.pane is Pane.REPORTS:
        return _joined(["ccltui", "stats", scene.session.path, "--alltoall"])
    words = ["ccltui", scene.session.path, "--metric", _metric(scene)]
    chosen, window = scene.session.filter, _window(scene)
    if window is not None:
        words.append(f"--window={format_window(window)}")
    listed = step_rows.chosen(scene) if scene.state.pane is Pane.STEPS else None
    if listed is not None:
        words += ["--steps", format_steps((listed, listed))]
    elif chosen.steps is not None:
        words += ["--steps", format_steps(chosen.steps)]
    if chosen.ranks is not None:
        words += ["--ranks", format_ranks(chosen.ranks)]
    communicator = scene.communicator
    if (
        scene.state.pane is not Pane.SUMMARY
        and communicator is not None
        and communicator.group >= 0
    ):
        words += ["--group", communicator.name]
    return _joined([*words, *_opened(scene, options)])


def _joined(words: Sequence[str]) -> str:
    """Words as a shell takes them when they are pasted."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """``word`` quoted; with octal escapes where a line editor would act on its characters.

    Quotes do not help there: ctrl+c in a pasted name ends the line before a shell reads it.
    """
    if safe_text(word) == word:
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{safe_text(plain, _octal)}'"


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def _metric(scene: Scene) -> str:
    if scene.state.pane in side_tables.PANES:
        return side_tables.metric(scene)
    if scene.state.pane is Pane.STEPS:
        return "temporal_breakdown"
    if scene.state.pane is Pane.TIMELINE:
        return "comm_comp_overlap"
    metrics = scene.findings.metrics
    if scene.state.pane is Pane.SUMMARY and scene.state.section is Section.LOSSES:
        return "fix_first"
    if scene.state.pane is not Pane.SUMMARY or not metrics:
        return "straggler_cause" if scene.state.drawer is not None else "straggler_lag"
    return metrics[min(scene.state.metric, len(metrics) - 1)].name


def _window(scene: Scene) -> Window | None:
    """The area that is measured, else the window that is set."""
    measured = span(scene)
    if scene.state.pane is Pane.TIMELINE and measured is not None:
        return Window(measured.start_ns, measured.end_ns)
    return scene.session.filter.window


def _opened(scene: Scene, options: ExplorerOptions) -> list[str]:
    """How the explorer was started, as far as numbers depend on it."""
    words = []
    if options.rank_map:
        pairs = ",".join(f"{rank}={path}" for path, rank in options.rank_map.items())
        words += ["--rank-map", pairs]
    job = scene.session.job
    if job is not None and len(job.discovery.captures) > 1:
        words += ["--capture", job.capture.name]
    if options.view.profile_mode != "auto":
        words += ["--profile-mode", options.view.profile_mode]
    if options.view.span != "steps":
        words += ["--span", options.view.span]
    for name, value in options.view.overrides.items():
        words += ["--set", f"{name}={value}"]
    return [*words, "--raw-clocks"] if options.view.raw_clocks else words
