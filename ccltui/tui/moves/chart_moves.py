"""Change the drawing of charts: order, pins, streams, rows, scale, layout."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ccltui.tui.moves.cursor import in_view
from ccltui.tui.state.pane import Axis, pane_in_view
from ccltui.tui.state.pane_states import ALIGNMENT_STATE, TIMELINE_STATE
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ColumnView, TimeView, ViewState

_MOST_PER_LANE = 64
_MARGIN = 4
"""Margin of a fitted selection at each side: one in so many cells."""


def order(scene: Scene) -> ViewState:
    """Change to the next order of ranks."""
    return replace(scene.state, order=scene.state.order.following())


def merge(scene: Scene) -> ViewState:
    """Switch between one row and two rows per rank."""
    own = TIMELINE_STATE.of(scene.state)
    return TIMELINE_STATE.put(scene.state, replace(own, merged=not own.merged))


def pin(scene: Scene) -> ViewState:
    """Pin the selected rank to the top, or unpin it."""
    return replace(scene.state, pins=_toggled(scene.state.pins, scene.state.selection.rank))


def unfold(scene: Scene) -> ViewState:
    """Show the streams of the selected rank, or hide them again."""
    rank = scene.state.selection.rank
    return replace(scene.state, unfolded=_toggled(scene.state.unfolded, rank))


def unfold_host(scene: Scene) -> ViewState:
    """Show what the host of the selected rank did, or hide it again."""
    own, rank = TIMELINE_STATE.of(scene.state), scene.state.selection.rank
    return TIMELINE_STATE.put(scene.state, replace(own, hosts=_toggled(own.hosts, rank)))


def no_host(scene: Scene) -> str | None:
    """Return the reason when nothing of the host of the selected rank can be unfolded."""
    missing = no_rank(scene)
    if missing is not None or scene.session.job is None:
        return missing
    rank = str(scene.state.selection.rank)
    trace = scene.trace(rank)
    if trace is None:
        return None
    found = trace.group("annotations"), trace.group("cpu_ops"), trace.group("runtime")
    if any(len(events) for events in found):
        return None
    return f"{rank_name(rank)} recorded nothing of its host"


def _toggled(ranks: tuple[str, ...], rank: str | None) -> tuple[str, ...]:
    if rank is None:
        return ranks
    return tuple(one for one in ranks if one != rank) if rank in ranks else (*ranks, rank)


def no_rank(scene: Scene) -> str | None:
    """Return the reason when there is no rank to pin or to unfold."""
    rank = scene.state.selection.rank
    return None if rank in scene.findings.lanes else "no rank is selected"


def no_streams(scene: Scene) -> str | None:
    """Return the reason when the selected rank has no stream to unfold."""
    missing = no_rank(scene)
    if missing is not None or scene.session.job is None:
        return missing
    rank = str(scene.state.selection.rank)
    trace = scene.trace(rank)
    if trace is not None and len(trace.group("gpu")):
        return None
    return f"{rank_name(rank)} has no device work: its trace is of the CPU alone"


def scale(scene: Scene) -> ViewState:
    """Switch the colour scale of lag between equal steps and equal factors."""
    own = ALIGNMENT_STATE.of(scene.state)
    return ALIGNMENT_STATE.put(scene.state, replace(own, linear=not own.linear))


def zoom_rows(*, inwards: bool) -> Callable[[Scene], ViewState]:
    """Return a move to fewer ranks with more room each (``inwards``), or to more ranks."""

    def move(scene: Scene) -> ViewState:
        state = scene.state
        if pane_in_view(scene).axis is Axis.TIME:
            lanes = TIMELINE_STATE.of(state)
            per_lane = lanes.ranks_per_lane // 2 if inwards else lanes.ranks_per_lane * 2
            lanes = replace(lanes, ranks_per_lane=max(min(per_lane, _MOST_PER_LANE), 1))
            return TIMELINE_STATE.put(state, lanes)
        own, count = ALIGNMENT_STATE.of(state), len(scene.members)
        shown = own.ranks_in_view or count
        shown = -(-shown // 2) if inwards else shown * 2
        own = replace(own, ranks_in_view=0 if shown >= count else max(shown, 1))
        return ALIGNMENT_STATE.put(state, own)

    return move


def why_not_zoom_rows(*, inwards: bool) -> Callable[[Scene], str | None]:
    """Return the check that gives the reason when :func:`zoom_rows` changes nothing."""

    def why_not(scene: Scene) -> str | None:
        state = scene.state
        if not scene.findings.lanes:
            return "no rank is loaded yet"
        if pane_in_view(scene).axis is Axis.TIME:
            per_lane = TIMELINE_STATE.of(state).ranks_per_lane
            if inwards and per_lane == 1:
                return "every rank has a lane of its own"
            most = min(len(scene.ranks), _MOST_PER_LANE)
            return None if inwards or per_lane < most else "one lane holds all ranks"
        in_view = ALIGNMENT_STATE.of(state).ranks_in_view
        if inwards and in_view == 1:
            return "one rank is in view"
        return None if inwards or in_view else "all ranks are in view"

    return why_not


def centre(scene: Scene) -> ViewState:
    """Centre the cursor; if it is centred already, fit the selection to the view."""
    state, selection = scene.state, scene.state.selection
    if pane_in_view(scene).axis is Axis.TIME:
        if selection.time_ns is None:
            return state
        centred, fitted = state.time.centred(selection.time_ns), _fit_time(scene)
        there = state.time in (centred, fitted)
        return replace(state, time=fitted if there else centred)
    if selection.k is None:
        return state
    around, widest = state.columns.centred(selection.k), _fit_columns(scene)
    there = state.columns in (around, widest)
    return replace(state, columns=widest if there else around)


def _fit_time(scene: Scene) -> TimeView:
    """Fit the measured area, else the selected collective from its first start to its last end."""
    state = scene.state
    area, communicator, k = state.area, scene.communicator, state.selection.k
    if area is not None and area.end_ns is not None:
        return showing(state.time, *sorted((area.start_ns, area.end_ns)))
    if communicator is None or k is None or k >= len(communicator):
        return state.time
    ends = (communicator.start_ns[k] + communicator.dur_ns[k])[communicator.present[k]]
    return showing(state.time, int(communicator.first_ns[k]), int(ends.max()))


def showing(view: TimeView, start_ns: int, end_ns: int) -> TimeView:
    """Return the view of a span of time, with a margin at each side."""
    length = max(end_ns - start_ns, 1)
    cell = min(max(-(-length * (_MARGIN + 2) // (_MARGIN * view.cells)), 1), view.widest_ns)
    return replace(view, cell_ns=cell).centred((start_ns + end_ns) // 2)


def _fit_columns(scene: Scene) -> ColumnView:
    """Return the widest columns around the selected collective."""
    columns, k = scene.state.columns, scene.state.selection.k or 0
    closer = columns.zoom_in(k)
    while closer != columns:
        columns, closer = closer, closer.zoom_in(k)
    return columns.centred(k)


def layout(scene: Scene) -> ViewState:
    """Change to the next layout of a wide screen."""
    return in_view(replace(scene.state, layout=scene.state.layout.following(), maximised=False))


def maximise(scene: Scene) -> ViewState:
    """Maximise the pane that has the keys, or restore the layout."""
    return replace(scene.state, maximised=not scene.state.maximised)
