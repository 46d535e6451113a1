"""Rows of Steps: order, chosen step, and the window of that step."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ccltui.tui.moves.cursor import in_view
from ccltui.tui.state.own.event_listing import with_event
from ccltui.tui.state.own.sorting import Value
from ccltui.tui.state.own.step_listing import CULPRIT, NUMBER, PARTS, STEPS_STATE
from ccltui.tui.state.queries.wanted_queries import culprits_of_steps, parts_of_steps
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.metrics.findings.rank_time.step_parts import StepParts


def order(scene: Scene) -> list[int]:
    """Return rows of the steps that match the filter, in the order of the list."""
    parts, own = parts_of_steps(scene), STEPS_STATE.of(scene.state)
    if parts is None:
        return []
    found = own.sorting.order([_sorted_by(scene, parts, row) for row in range(len(parts))])
    if own.sorting.column == NUMBER:  # numbers of steps are names: in order of time
        found.reverse()
    if not own.pattern:
        return found
    matches = re.compile(own.pattern, re.IGNORECASE).search
    return [row for row in found if matches(f"{parts.steps[row]} {_culprit(scene, parts, row)}")]


def _sorted_by(scene: Scene, parts: StepParts, row: int) -> Value:
    column = STEPS_STATE.of(scene.state).sorting.column
    if column == NUMBER:
        return parts.steps[row]
    if column == CULPRIT:
        return _culprit(scene, parts, row) or None
    if column in PARTS:
        return parts.mean_ns(row)[PARTS.index(column)]
    return int(parts.longest_ns[row])


def _culprit(scene: Scene, parts: StepParts, row: int) -> str:
    """Return who keeps the others waiting in a step, "" for nobody."""
    culprits = culprits_of_steps(scene)
    label = None if culprits is None else culprits.of(parts.steps[row]).label
    return "" if label is None else rank_name(label)


def current(scene: Scene) -> int:
    """Return the place of the chosen step in the list, the first where none is chosen."""
    parts, step = parts_of_steps(scene), STEPS_STATE.of(scene.state).step
    if parts is None or step not in parts.steps:
        return 0
    rows, row = order(scene), parts.steps.index(step)
    return rows.index(row) if row in rows else 0


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
    rows = order(scene)
    return parts.steps[rows[current(scene)]] if parts is not None and rows else None


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
    if chosen(scene) is not None:
        return None
    pattern = STEPS_STATE.of(scene.state).pattern
    if pattern:
        return f"no step matches /{pattern}/: / changes the filter"
    return "no step has device work"


def windowed(scene: Scene) -> Session:
    """Set the chosen step as the window; clear the window where it was that step."""
    step, old = chosen(scene), scene.session.filter
    if step is None:
        return scene.session
    steps = None if old.steps == (step, step) else (step, step)
    return scene.session.filtered(replace(old, steps=steps, window=None))
