"""Move between events, edges of work and iterations."""

from __future__ import annotations

from msgspec.structs import replace

from ccltui.tui.moves.cursor import in_view, show_communicator, to_time
from ccltui.tui.moves.view_moves import Move, step_collective
from ccltui.tui.state.pane import Axis, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState


def event(direction: int) -> Move:
    """Return a move to the rank's next or previous collective, of any communicator.

    The moving edge of an area snaps to where work begins and ends.
    """

    def move(scene: Scene) -> ViewState:
        if pane_in_view(scene).axis is not Axis.TIME:
            return step_collective(direction)(scene)
        if is_measuring(scene):
            edge = _next_edge(scene, direction)
            return scene.state if edge is None else to_time(scene, edge)
        row = _event_row(scene, direction)
        if row is None:
            return scene.state
        calls = scene.findings.calls[str(scene.state.selection.rank)]
        owner, k = int(calls.communicator[row]), int(calls.k[row])
        state = scene.state
        if owner != state.selection.communicator:
            state = show_communicator(scene, owner)
        state = state.select(k=k, time_ns=int(calls.start_ns[row]))
        return in_view(replace(state, worst=None))

    return move


def is_measuring(scene: Scene) -> bool:
    """Return whether an edge of an area moves with the cursor."""
    area = scene.state.area
    return pane_in_view(scene).axis is Axis.TIME and area is not None and area.end_ns is None


def _next_edge(scene: Scene, direction: int) -> int | None:
    from ccltui.tui.moves import measured_area as area  # noqa: PLC0415  (numpy: after the first paint)

    return area.next_edge(scene, direction)


def _event_row(scene: Scene, direction: int) -> int | None:
    selection = scene.state.selection
    calls = scene.findings.calls.get(selection.rank or "")
    if calls is None:
        return None
    at = scene.state.time.left_ns if selection.time_ns is None else selection.time_ns
    return calls.after(at) if direction > 0 else calls.before(at)


def why_no_event(scene: Scene, direction: int) -> str | None:
    """Return the reason when :func:`event` has no target in a direction, None where it has one."""
    where = "later" if direction > 0 else "earlier"
    if is_measuring(scene):
        at_end = _next_edge(scene, direction) is None
        return f"no {where} work on this rank" if at_end else None
    return None if _has_event(scene, direction) else f"no {where} matched collective on this rank"


def _has_event(scene: Scene, direction: int) -> bool:
    if pane_in_view(scene).axis is Axis.TIME:
        return _event_row(scene, direction) is not None
    return True


def iteration(direction: int) -> Move:
    """Return a move to the start of the next or previous iteration."""

    def move(scene: Scene) -> ViewState:
        at = next_iteration(scene, direction)
        return scene.state if at is None else to_time(scene, at)

    return move


def next_iteration(scene: Scene, direction: int) -> int | None:
    """Return the target of :func:`iteration`, ns since the origin; None when there is none."""
    at = scene.state.selection.time_ns
    at = scene.state.time.left_ns - 1 if at is None else at
    starts = [step.start_ns for step in scene.findings.steps]
    if direction > 0:
        return next((start for start in starts if start > at), None)
    return next((start for start in reversed(starts) if start < at), None)
