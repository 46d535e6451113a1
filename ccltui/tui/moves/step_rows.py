"""Rows of Steps: order, chosen step, and the window of that step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ccltui.tui.moves.cursor import in_view
from ccltui.tui.state.own.event_listing import with_event
from ccltui.tui.state.own.own_state import OwnState
from ccltui.tui.state.own.pane_names import STEPS
from ccltui.tui.state.queries.wanted_queries import parts_of_steps
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState


@dataclass(frozen=True, slots=True)
class StepsState:
    """State of Steps."""

    step: int | None = None  # the chosen one, by its id
    in_order: bool = False  # rows in order of time, else the slowest first


STEPS_STATE: Final = OwnState(STEPS, StepsState())


def order(scene: Scene) -> list[int]:
    """Return rows of the steps in the order of the list: slowest first, or by time."""
    parts = parts_of_steps(scene)
    if parts is None:
        return []
    if STEPS_STATE.of(scene.state).in_order:
        return list(range(len(parts)))
    found: list[int] = parts.slowest_first.tolist()
    return found


def current(scene: Scene) -> int:
    """Return the place of the chosen step in the list, the first where none is chosen."""
    parts, step = parts_of_steps(scene), STEPS_STATE.of(scene.state).step
    if parts is None or step not in parts.steps:
        return 0
    return order(scene).index(parts.steps.index(step))


def to_row(scene: Scene, place: int) -> ViewState:
    """Choose a step; the shared cursor moves to its beginning on its slowest rank."""
    parts = parts_of_steps(scene)
    if parts is None or not len(parts):
        return scene.state
    row = order(scene)[place]
    column = int(parts.slowest[row])
    time_ns = int(parts.start_ns[row, column])
    state = scene.state.select(rank=parts.labels[column], time_ns=time_ns)
    communicator = scene.communicator
    if communicator is not None and len(communicator):
        state = state.select(k=communicator.nearest(time_ns))
    own = replace(STEPS_STATE.of(state), step=parts.steps[row])
    return in_view(with_event(STEPS_STATE.put(replace(state, worst=None), own), None))


def chosen(scene: Scene) -> int | None:
    """Return the id of the chosen step, None where there is none."""
    parts = parts_of_steps(scene)
    if parts is None or not len(parts):
        return None
    return parts.steps[order(scene)[current(scene)]]


def slowest(scene: Scene) -> tuple[str, int] | None:
    """Return the rank that took longest in the chosen step, and the step; None without a step."""
    parts, step = parts_of_steps(scene), chosen(scene)
    if parts is None or step is None:
        return None
    return parts.labels[int(parts.slowest[parts.steps.index(step)])], step


def middle_step(scene: Scene, label: str, other_than: int | None) -> int | None:
    """Return the step of a rank whose length is the median of its other steps."""
    parts = parts_of_steps(scene)
    if parts is None or label not in parts.labels:
        return None
    lengths = parts.length_ns[:, parts.labels.index(label)].tolist()
    known = sorted(
        (length, step)
        for length, step in zip(lengths, parts.steps, strict=True)
        if length and step != other_than
    )
    return known[len(known) // 2][1] if known else None


def why_none(scene: Scene) -> str | None:
    """Return the reason when no step can be chosen."""
    if not scene.findings.lanes:
        return "no rank is loaded yet"
    if not scene.findings.steps:
        return "the traces have no step markers"
    if parts_of_steps(scene) is None:
        return "still dividing the steps"
    return None if chosen(scene) is not None else "no step has device work"


def windowed(scene: Scene) -> Session:
    """Set the chosen step as the window; clear the window where it was that step."""
    step, old = chosen(scene), scene.session.filter
    if step is None:
        return scene.session
    steps = None if old.steps == (step, step) else (step, step)
    return scene.session.filtered(replace(old, steps=steps, window=None))


def other_order(scene: Scene) -> ViewState:
    """Switch between slowest first and order of time."""
    own = STEPS_STATE.of(scene.state)
    return STEPS_STATE.put(scene.state, replace(own, in_order=not own.in_order))
