"""Parse the text of the window prompt into a filter, and format a filter as such a text."""

from __future__ import annotations

import re

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.units import parse_duration
from ccltui.parsers.window import Window, format_window, parse_steps, parse_window
from ccltui.tui.moves.measured_area import window
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session

TITLE = "window: 4s420ms/35s390ms   iter 12-98   +2s from the cursor   empty: everything"
_STEPS = re.compile(r"\s*it(?:er(?:ations?)?)?\s+(.*)", re.IGNORECASE)


def filter_text(chosen: ViewOptions) -> str:
    """Return the filter as it would be typed."""
    if chosen.steps is not None:
        first, last = chosen.steps
        return f"iter {first}-{last}"
    return "" if chosen.window is None else format_window(chosen.window)


def parse_filter(text: str, scene: Scene) -> ViewOptions:
    """Return the filter that a text describes, with the ranks of the present one.

    Raises:
        GrammarError: The text describes no filter.
    """
    everything = scene.session.filter.changed(window=None, steps=None)
    text = text.strip()
    if not text:
        return everything
    steps = _STEPS.fullmatch(text)
    if steps is not None:
        return everything.changed(steps=parse_steps(steps[1].strip()))
    if text.startswith("+") and "/" not in text:
        start = scene.state.selection.time_ns or 0
        return everything.changed(window=Window(start, start + parse_duration(text[1:])))
    return everything.changed(window=parse_window(text))


def problem_with(text: str, scene: Scene) -> str | None:
    """Return why a text is no valid filter for this job, None when it is valid."""
    try:
        chosen = parse_filter(text, scene)
    except GrammarError as error:
        return str(error)
    known = [step.id for step in scene.findings.steps]
    if chosen.steps is not None:
        if not known:
            return "the traces have no step markers: give a window of time"
        first, last = chosen.steps
        if not any(first <= step <= last for step in known):
            return f"no such step: there are {min(known)} to {max(known)}"
    return None


def windowed(scene: Scene) -> Session:
    """Return the session whose window is the measured area, else the visible time."""
    here = window(scene)
    chosen = None if here is None else Window(here.start_ns, here.end_ns)
    return scene.session.filtered(scene.session.filter.changed(window=chosen, steps=None))
