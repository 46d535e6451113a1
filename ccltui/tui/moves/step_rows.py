"""The rows of Steps: which step is chosen, in which order, and what enter does with it."""

from __future__ import annotations

from dataclasses import replace

from ccltui.tui.moves.cursor import in_view
from ccltui.tui.state.queries import steps_told
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState


def order(scene: Scene) -> list[int]:
    """Rows of the steps as they are listed: the slowest first, or in order of time."""
    parts = steps_told(scene)
    if parts is None:
        return []
    if scene.state.steps_in_order:
        return list(range(len(parts)))
    found: list[int] = parts.slowest_first.tolist()
    return found


def current(scene: Scene) -> int:
    """Place of the chosen step in the list, the first where none is."""
    parts, step = steps_told(scene), scene.state.step
    if parts is None or step not in parts.steps:
        return 0
    return order(scene).index(parts.steps.index(step))


def to_row(scene: Scene, place: int) -> ViewState:
    """Choose a step; the shared cursor goes to its beginning on its slowest rank."""
    parts = steps_told(scene)
    if parts is None or not len(parts):
        return scene.state
    row = order(scene)[place]
    column = int(parts.slowest[row])
    time_ns = int(parts.start_ns[row, column])
    state = scene.state.select(rank=parts.labels[column], time_ns=time_ns)
    communicator = scene.communicator
    if communicator is not None and len(communicator):
        state = state.select(k=communicator.nearest(time_ns))
    return in_view(replace(state, step=parts.steps[row], worst=None, event=None))


def chosen(scene: Scene) -> int | None:
    """Id of the chosen step, None where there is none."""
    parts = steps_told(scene)
    if parts is None or not len(parts):
        return None
    return parts.steps[order(scene)[current(scene)]]


def slowest(scene: Scene) -> tuple[str, int] | None:
    """The rank that took longest in the chosen step, and the step; None where there is none."""
    parts, step = steps_told(scene), chosen(scene)
    if parts is None or step is None:
        return None
    return parts.labels[int(parts.slowest[parts.steps.index(step)])], step


def why_none(scene: Scene) -> str | None:
    """What keeps a step from being chosen."""
    if not scene.findings.lanes:
        return "no rank is loaded yet"
    if not scene.findings.steps:
        return "the traces have no step markers"
    if steps_told(scene) is None:
        return "still dividing the steps"
    return None if chosen(scene) is not None else "no step has device work"


def windowed(scene: Scene) -> Session:
    """The session with the chosen step for its window; everything again where it was that."""
    step, old = chosen(scene), scene.session.filter
    if step is None:
        return scene.session
    steps = None if old.steps == (step, step) else (step, step)
    return scene.session.filtered(replace(old, steps=steps, window=None))


def other_order(scene: Scene) -> ViewState:
    """The slowest first, or in order of time."""
    return replace(scene.state, steps_in_order=not scene.state.steps_in_order)
