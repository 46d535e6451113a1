"""Parse the text of the goto prompt: a collective, a rank, an iteration or a time."""

from __future__ import annotations

import re

from ccltui.parsers import numbers
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.units import parse_duration
from ccltui.tui.moves.cursor import to_collective, to_time
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ViewState

TITLE = "go to: k 4705   r16   it 42   12.5s   (g: first row)"
_COLLECTIVE = re.compile(r"(?:k|#)\s*([\d,]+)", re.IGNORECASE)
_RANK = re.compile(r"r\s*(\S.*)", re.IGNORECASE)
_ITERATION = re.compile(r"it(?:er)?\s*(\d+)", re.IGNORECASE)


def goto(text: str, scene: Scene) -> ViewState:
    """Return the view at the place that a text names.

    Raises:
        GrammarError: The text names no place, or one that does not exist.
    """
    text = text.strip()
    collective = _COLLECTIVE.fullmatch(text)
    if collective is not None:
        return _collective(int(collective[1].replace(",", "")), scene)
    iteration = _ITERATION.fullmatch(text)
    if iteration is not None:
        return _iteration(int(iteration[1]), scene)
    rank = _RANK.fullmatch(text)
    if rank is not None:
        return _rank(rank[1], scene)
    if scene.findings.span is None:
        raise GrammarError("no rank is loaded yet")
    return to_time(scene, parse_duration(text))


def _collective(k: int, scene: Scene) -> ViewState:
    communicator = scene.communicator
    if communicator is None or not len(communicator):
        raise GrammarError("no collective is matched across ranks")
    if k >= len(communicator):
        last = numbers.count(len(communicator) - 1)
        raise GrammarError(f"{communicator.name} has collectives 0 to {last}")
    return to_collective(scene, k)


def _rank(text: str, scene: Scene) -> ViewState:
    for label in scene.findings.lanes:
        if text in (label, rank_name(label)):
            return scene.state.select(rank=label)
    ranks = ", ".join(list(scene.findings.lanes)[:8])
    raise GrammarError(f"no rank {text!r}; there are {ranks or 'none yet'}")


def _iteration(number: int, scene: Scene) -> ViewState:
    steps = scene.findings.steps
    for step in steps:
        if step.id == number:
            return to_time(scene, step.start_ns)
    if not steps:
        raise GrammarError("the traces have no step markers")
    raise GrammarError(f"no such step: there are {steps[0].id} to {steps[-1].id}")
