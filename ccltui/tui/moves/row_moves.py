"""Rows of the pane in view, or of the drawer when it has the keys: what j and k walk through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ccltui.tui.moves import drawer, loss_list, step_rows
from ccltui.tui.moves.cursor import in_view, show_communicator
from ccltui.tui.state import side_tables
from ccltui.tui.state.file_rows import file_rows
from ccltui.tui.state.notes import notes
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Pane, Section, ViewState

PAGE = 9  # tenths of a page


def count(scene: Scene) -> int:
    """Number of rows."""
    if scene.state.drawer_has_keys:
        return drawer.count(scene)
    match scene.state.pane:
        case Pane.SUMMARY if not scene.state.table_open:
            return sum(_sections(scene).values())
        case Pane.SUMMARY:
            return len(scene.findings.lanes)
        case Pane.STEPS:
            return len(step_rows.order(scene))
        case Pane.EVENTS:
            return 0 if scene.events is None else len(scene.events)
        case Pane.FILES:
            return len(file_rows(scene))
        case Pane.RUNS | Pane.CLUSTER | Pane.REPORTS:
            return side_tables.count(scene)
        case _:
            return len(_labels(scene))


def _sections(scene: Scene) -> dict[Section, int]:
    """Rows of every part of Summary."""
    found = scene.findings.metrics
    return {
        Section.LOSSES: len(loss_list.losses(scene)),
        Section.METRICS: len(found),
        Section.NOTES: len(notes(scene)) if found else 0,
    }


def _summary_row(scene: Scene) -> int:
    state, before = scene.state, 0
    chosen = {
        Section.LOSSES: state.loss or 0,
        Section.METRICS: state.metric,
        Section.NOTES: state.note,
    }
    for section, size in _sections(scene).items():
        if section is state.section:
            return before + max(min(chosen[section], size - 1), 0)
        before += size
    return before


def _in_summary(scene: Scene, row: int) -> ViewState:
    state = scene.state
    for section, size in _sections(scene).items():
        if row < size:
            if section is Section.LOSSES:
                return replace(state, section=section, loss=row)
            if section is Section.METRICS:
                return replace(state, section=section, metric=row)
            return replace(state, section=section, note=row)
        row -= size
    return state


def _labels(scene: Scene) -> tuple[str, ...]:
    return scene.members if scene.state.pane is Pane.ALIGNMENT else scene.ranks


def current(scene: Scene) -> int:
    """Row of the cursor."""
    if scene.state.drawer_has_keys:
        return drawer.row(scene)
    if scene.state.pane is Pane.SUMMARY:
        return scene.state.first_rank if scene.state.table_open else _summary_row(scene)
    if scene.state.pane is Pane.STEPS:
        return step_rows.current(scene)
    if scene.state.pane is Pane.EVENTS:
        return 0 if scene.events is None else scene.events.at(scene)
    if scene.state.pane is Pane.FILES:
        return scene.state.file
    if scene.state.pane in side_tables.PANES:
        return side_tables.row(scene.state)
    labels, rank = _labels(scene), scene.state.selection.rank
    return labels.index(rank) if rank in labels else 0


def to_row(scene: Scene, row: int) -> ViewState:
    """Put the cursor on a row, the nearest one that exists."""
    state, rows = scene.state, count(scene)
    if not rows:
        return state
    row = max(min(row, rows - 1), 0)
    if scene.state.drawer_has_keys:
        return drawer.to_row(scene, row)
    if state.pane is Pane.SUMMARY:
        return replace(state, first_rank=row) if state.table_open else _in_summary(scene, row)
    if state.pane is Pane.STEPS:
        return step_rows.to_row(scene, row)
    if state.pane is Pane.EVENTS:
        return _to_event(scene, row)
    if state.pane is Pane.FILES:
        return replace(state, file=row)
    if state.pane in side_tables.PANES:
        return side_tables.to_row(state, row)
    return state.select(rank=_labels(scene)[row])


def _to_event(scene: Scene, place: int) -> ViewState:
    """The event at a place of the list, and its collective in the other panes."""
    table, state = scene.events, scene.state
    if table is None:
        return state
    row = int(table.order[place])
    time_ns, rank, found = table.time_ns(row), table.query.rank, table.collective(row)
    if found is not None:
        communicator, k = found
        if communicator != state.selection.communicator:
            state = show_communicator(scene, communicator)
        state = state.select(rank=rank, k=k)
    state = replace(state.select(rank=rank, time_ns=time_ns), event=row, worst=None)
    return in_view(state)


def down(rows: int) -> Callable[[Scene], ViewState]:
    """Some rows down (negative: up)."""

    def move(scene: Scene) -> ViewState:
        return to_row(scene, current(scene) + rows)

    return move


def page_down(direction: int) -> Callable[[Scene], ViewState]:
    """90 % of a page down or up."""

    def move(scene: Scene) -> ViewState:
        return down(direction * max(scene.state.rows * PAGE // 10, 1))(scene)

    return move


def first_row(scene: Scene) -> ViewState:
    """The first row."""
    return to_row(scene, 0)


def last_row(scene: Scene) -> ViewState:
    """The last row."""
    return to_row(scene, count(scene) - 1)
