"""Move between panes, rows and collectives, pan, zoom, close what is open, and go back."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ccltui.tui.moves import drawer
from ccltui.tui.moves.cursor import in_view, show_communicator, to_collective, to_time
from ccltui.tui.state.pane import (
    Axis,
    drawer_has_keys,
    drawer_shows,
    pane_in_view,
    panes_with_tabs,
    shows_drawer,
)
from ccltui.tui.state.pane_states import ALIGNMENT, EVENTS, OVERVIEW, with_event
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Drawer, History, Shown, ViewState


class Mark(Struct, frozen=True):
    """Request to store this view under a letter."""

    letter: str


class Return(Struct, frozen=True):
    """Request to show a view again: that of a letter, or "" for the previous one."""

    letter: str


def settled(scene: Scene, wish: Mark | Return) -> Scene:
    """Return the scene with a bookmark added, or at the bookmarked view."""
    if isinstance(wish, Mark):
        said = f"bookmark {wish.letter}: '{wish.letter} comes back here"
        return replace(scene, marks={**scene.marks, wish.letter: scene.state}, said=said)
    if not wish.letter:
        return view_back(scene)
    there = restored(scene, scene.marks[wish.letter])
    return replace(there, history=scene.history.left(scene.state, there.state, "find.return"))


def view_back(scene: Scene) -> Scene:
    """Return the scene at the previous view."""
    past = scene.history
    if not past.before:
        return scene
    moved = History(past.before[:-1], (*past.after, scene.state))
    return replace(restored(scene, past.before[-1]), history=moved)


def view_forward(scene: Scene) -> Scene:
    """Return the scene at the following view, after :func:`back`."""
    past = scene.history
    if not past.after:
        return scene
    moved = History((*past.before, scene.state), past.after[:-1])
    return replace(restored(scene, past.after[-1]), history=moved)


def restored(scene: Scene, state: ViewState) -> Scene:
    """Restore an earlier view, as far as what it showed still exists."""
    span = scene.findings.span
    time = state.time.resized(scene.state.time.cells)
    if span is not None:
        time = time.bounded(span.start_ns, span.end_ns)
    selection = state.selection
    if selection.communicator >= len(scene.findings.communicators or ()):
        selection = replace(selection, communicator=0)
    state = replace(
        state, time=time, rows=scene.state.rows, floor_ns=scene.state.floor_ns, selection=selection
    )
    communicator, k = scene.with_state(state).communicator, selection.k
    count = 0 if communicator is None else len(communicator)
    columns = replace(state.columns, count=count).resized(scene.state.columns.cells)
    selection = replace(selection, k=min(k, count - 1) if count and k is not None else None)
    return scene.with_state(
        replace(state, selection=selection, columns=columns.pan(0) if count else columns)
    )


PAGE = 9  # tenths of a page


def count(scene: Scene) -> int:
    """Return the number of rows."""
    return drawer.count(scene) if drawer_has_keys(scene) else pane_in_view(scene).count(scene)


def current(scene: Scene) -> int:
    """Return the row of the cursor."""
    return drawer.row(scene) if drawer_has_keys(scene) else pane_in_view(scene).row(scene)


def to_row(scene: Scene, row: int) -> ViewState:
    """Put the cursor on a row, or on the nearest one that exists."""
    rows = count(scene)
    if not rows:
        return scene.state
    row = max(min(row, rows - 1), 0)
    if drawer_has_keys(scene):
        return drawer.to_row(scene, row)
    return pane_in_view(scene).to_row(scene, row)


def down(rows: int) -> Callable[[Scene], ViewState]:
    """Return a move by some rows down (negative: up)."""

    def move(scene: Scene) -> ViewState:
        return to_row(scene, current(scene) + rows)

    return move


def page_down(direction: int) -> Callable[[Scene], ViewState]:
    """Return a move by 90 % of a page down or up."""

    def move(scene: Scene) -> ViewState:
        return down(direction * max(scene.state.rows * PAGE // 10, 1))(scene)

    return move


def first_row(scene: Scene) -> ViewState:
    """Move to the first row."""
    return to_row(scene, 0)


def last_row(scene: Scene) -> ViewState:
    """Move to the last row."""
    return to_row(scene, count(scene) - 1)


def why_none(scene: Scene) -> str | None:
    """Return the reason when there is no row."""
    return None if count(scene) else pane_in_view(scene).why_no_rows(scene)


def sort(step: int) -> Callable[[Scene], ViewState]:
    """Return a change to the order by the next column, or the previous for -1."""

    def move(scene: Scene) -> ViewState:
        pane = pane_in_view(scene)
        found = pane.sorting(scene).following(pane.sort_columns(scene), step)
        return pane.with_sorting(scene, found)

    return move


def reverse(scene: Scene) -> ViewState:
    """Turn the order round; of a comparison in the drawer, largest changes first or in order."""
    if drawer_shows(scene, Shown.VERSUS):
        return drawer.sort_rows(scene)
    pane = pane_in_view(scene)
    found = pane.sorting(scene)
    return pane.with_sorting(scene, replace(found, reverse=not found.reverse))


def next_kind(scene: Scene) -> ViewState:
    """List the next kind of rows."""
    return pane_in_view(scene).with_next_kind(scene)


def fold(scene: Scene) -> ViewState:
    """Fold or unfold the selected row."""
    return pane_in_view(scene).with_fold(scene)


Move = Callable[[Scene], ViewState]
_FLOOR_LIMITS_NS = (1_000, 10_000_000_000)


def open_pane(name: str) -> Move:
    """Return a move to a pane, or back where it is in view; there the shared cursor is in view."""

    def move(scene: Scene) -> ViewState:
        here = pane_in_view(scene)
        to = here.from_pane or name if here.name == name else name
        after = scene.with_state(replace(scene.state, pane=to))
        inspects = after.state.drawer is not None and after.state.drawer.shown is Shown.EVENT
        if inspects and _has_event_cursor(scene) != _has_event_cursor(after):
            after = after.with_state(replace(after.state, drawer=None))
        return in_view(after.state)

    return move


def _has_event_cursor(scene: Scene) -> bool:
    """Return whether the cursor that charts and Events share is that of the pane in view.

    In other panes it is on a row of their own, to which the inspected event does not belong.
    """
    return pane_in_view(scene).axis is not None or scene.state.pane == EVENTS


def next_pane(step: int) -> Move:
    """Return a move to the pane after or before this one."""

    def move(scene: Scene) -> ViewState:
        panes = panes_with_tabs(scene)
        at = panes.index(pane_in_view(scene)) + step
        return open_pane(panes[at % len(panes)].name)(scene)

    return move


def tab(scene: Scene) -> ViewState:
    """Move the keys into or out of an open drawer, else go to the next pane."""
    return drawer.switch_focus(scene) if shows_drawer(scene) else next_pane(1)(scene)


def across(cells: int) -> Move:
    """Return a move by cells or collectives to the right (negative: left)."""

    def move(scene: Scene) -> ViewState:
        if pane_in_view(scene).axis is Axis.TIME:
            view = scene.state.time
            at = scene.state.selection.time_ns
            at = view.left_ns if at is None else at
            return to_time(scene, view.edge_ns(view.column(at) + cells))
        return step_collective(cells * scene.state.columns.per_cell)(scene)

    return move


def page_across(direction: int) -> Move:
    """Return a move by 90 % of a page to the right or left, together with the cursor."""

    def move(scene: Scene) -> ViewState:
        view = scene.state.time if pane_in_view(scene).axis is Axis.TIME else scene.state.columns
        repeat = 1 if pane_in_view(scene).axis is Axis.TIME else scene.state.columns.repeat
        return across(direction * max(view.cells * PAGE // 10 // repeat, 1))(scene)

    return move


def pan(tenths: int) -> Move:
    """Return a move of the view by tenths of a page; the cursor stays where it is."""

    def move(scene: Scene) -> ViewState:
        state = scene.state
        if pane_in_view(scene).axis is Axis.TIME:
            return replace(state, time=state.time.pan(_tenths(state.time.cells, tenths)))
        return replace(state, columns=state.columns.pan(_tenths(state.columns.cells, tenths)))

    return move


def _tenths(cells: int, tenths: int) -> int:
    size = max(cells * abs(tenths) // 10, 1)
    return size if tenths > 0 else -size


def zoom(*, inwards: bool) -> Move:
    """Return a zoom by a factor of 2 around the cursor, or around the middle if out of view."""

    def move(scene: Scene) -> ViewState:
        state = scene.state
        if pane_in_view(scene).axis is Axis.TIME:
            view, at = state.time, state.selection.time_ns
            if at is None or not 0 <= view.column(at) < view.cells:
                at = (view.left_ns + view.right_ns) // 2
            return replace(state, time=view.zoom_in(at) if inwards else view.zoom_out(at))
        columns, k = state.columns, state.selection.k
        if k is None or columns.showing(k) != columns:
            k = columns.first + columns.shown // 2
        return replace(state, columns=columns.zoom_in(k) if inwards else columns.zoom_out(k))

    return move


def fit(scene: Scene) -> ViewState:
    """Show everything."""
    state = scene.state
    if pane_in_view(scene).axis is Axis.TIME:
        return replace(state, time=state.time.fit())
    return replace(state, columns=state.columns.fit())


def step_collective(step: int) -> Move:
    """Return a move by some collectives of the communicator (negative: back)."""

    def move(scene: Scene) -> ViewState:
        communicator = scene.communicator
        if not communicator:
            return scene.state
        k = scene.state.selection.k
        k = 0 if k is None else k + step
        return to_collective(scene, max(min(k, len(communicator) - 1), 0))

    return move


def worst(step: int) -> Move:
    """Return a move to the next or previous collective by caused wait, and its last rank.

    The order is that of all communicators; that of the collective comes into view.
    """

    def move(scene: Scene) -> ViewState:
        found = scene.findings.worst_first
        if found is None or not len(found):
            return scene.state
        place = scene.state.worst
        first = 0 if step > 0 else len(found) - 1
        place = first if place is None else (place + step) % len(found)
        index = int(found.communicator[place])
        shown = scene
        if index != scene.communicator_index:
            shown = scene.with_state(show_communicator(scene, index))
        return _in_collectives(scene, to_collective(shown, int(found.k[place]), culprit=True))

    return move


def _in_collectives(scene: Scene, state: ViewState) -> ViewState:
    """Switch to Alignment from a pane that shows no collective."""
    return state if pane_in_view(scene).among is not None else replace(state, pane=ALIGNMENT)


def over_floor(direction: int) -> Move:
    """Return a move to the next or previous collective in time with lag above the floor."""

    def move(scene: Scene) -> ViewState:
        k = next_over_floor(scene, direction)
        if k is None:
            return scene.state
        return _in_collectives(scene, to_collective(scene, k, culprit=True))

    return move


def next_over_floor(scene: Scene, direction: int) -> int | None:
    """Return the target of :func:`over_floor`, None when there is no further one."""
    communicator, floor_ns = scene.communicator, scene.floor_ns
    if communicator is None or floor_ns is None:
        return None
    return communicator.next_over(floor_ns, scene.state.selection.k, forward=direction > 0)


def floor(*, higher: bool) -> Move:
    """Return a move that doubles or halves the floor, the lag that counts as noise."""

    def move(scene: Scene) -> ViewState:
        low, high = _FLOOR_LIMITS_NS
        now = scene.floor_ns
        if now is None:
            return scene.state
        wanted = now * 2 if higher else now // 2
        return replace(scene.state, floor_ns=max(min(wanted, high), low))

    return move


def is_open(scene: Scene) -> bool:
    """Return whether :func:`back` closes anything."""
    state = scene.state
    opened = shows_drawer(scene) or state.area is not None or state.maximised
    pane = pane_in_view(scene)
    return opened or bool(pane.from_pane or _lists_matches(scene) or state.search)


def _lists_matches(scene: Scene) -> bool:
    """Return whether the pane lists only matches; the filter of Overview is that of Metrics."""
    pane = pane_in_view(scene)
    return pane.name != OVERVIEW and bool(pane.row_pattern(scene))


def back(scene: Scene) -> ViewState:
    """Close what was opened last."""
    state = scene.state
    if state.maximised:
        chain = state.drawer is not None and state.drawer.shown is Shown.CHAIN
        return replace(state, maximised=False, drawer=None if chain else state.drawer)
    if state.drawer is not None and shows_drawer(scene):
        focused = state.drawer.focused and state.drawer.shown is Shown.COLLECTIVE
        return replace(state, drawer=Drawer() if focused else None)
    if state.area is not None:
        return replace(state, area=None)
    pane = pane_in_view(scene)
    if _lists_matches(scene):
        return pane.with_row_pattern(scene, "")
    if pane.from_pane:
        return open_pane(pane.from_pane)(scene)
    return replace(state, search="")


def other_rank(step: int) -> Move:
    """Return a move to the rank after or before the selected one."""

    def move(scene: Scene) -> ViewState:
        ranks, rank = scene.ranks, scene.state.selection.rank
        at = ranks.index(rank) + step if rank in ranks else 0
        at = max(min(at, len(ranks) - 1), 0)
        return with_event(scene.state.select(rank=ranks[at]), None) if ranks else scene.state

    return move
