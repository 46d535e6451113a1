"""Drawer actions: open, close, focus, and follow the blame chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.tui.moves import causal_zoom, compare_ranks, inspector
from ccltui.tui.moves.cursor import in_view, show_communicator
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.pane_names import TIMELINE
from ccltui.tui.state.pane_states import with_event
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Drawer, Shown, ViewState
from ccltui.tui.state.wanted_queries import detail_query

if TYPE_CHECKING:
    from ccltui.tui.state.collective_detail import Detail


def described(scene: Scene) -> Detail | None:
    """Return the detail of the selected collective, None while it is being computed."""
    return scene.answers.answer(detail_query(scene))


def arrivals(scene: Scene) -> tuple[int, ...]:
    """Return members of the selected collective, the last to arrive first, as label indices."""
    if scene.collective is None:
        return ()
    communicator, k = scene.collective
    late = communicator.late_ns[k].tolist()
    return tuple(sorted(range(len(late)), key=lambda member: -late[member]))


def shows(scene: Scene, shown: Shown) -> bool:
    """Return whether the drawer has this content."""
    return scene.state.drawer is not None and scene.state.drawer.shown is shown


def count(scene: Scene) -> int:
    """Return the number of rows: the ranks, then the links of a chain of more than one link."""
    if shows(scene, Shown.BLOCK):
        found = compare_ranks.block(scene)
        return 0 if found is None else len(found.positions)
    if shows(scene, Shown.VERSUS):
        return len(compare_ranks.rows(scene))
    if shows(scene, Shown.EVENT):
        return inspector.num_rows(scene)
    if shows(scene, Shown.CHAIN):
        return len(causal_zoom.events(scene))
    detail = described(scene)
    links = 0 if detail is None or len(detail.stops) < 2 else len(detail.stops)
    return len(arrivals(scene)) + links


def row(scene: Scene) -> int:
    """Return the row of the drawer's cursor."""
    drawer = scene.state.drawer
    return 0 if drawer is None else min(drawer.row, max(count(scene) - 1, 0))


def to_row(scene: Scene, row: int) -> ViewState:
    """Put the drawer's cursor on a row."""
    drawer = scene.state.drawer
    return scene.state if drawer is None else replace(scene.state, drawer=replace(drawer, row=row))


def open_drawer(scene: Scene) -> ViewState:
    """Show the details of the selected collective."""
    return replace(scene.state, drawer=Drawer())


def switch_focus(scene: Scene) -> ViewState:
    """Move the keys to the drawer, or back to the pane."""
    drawer = scene.state.drawer
    if drawer is None:
        return scene.state
    return replace(scene.state, drawer=replace(drawer, focused=not drawer.focused, row=0))


def enter(scene: Scene) -> ViewState:
    """Open the drawer; in it, show a rank on the timeline or follow a link of the chain.

    On work that is no collective the inspector opens.
    """
    state = scene.state
    if drawer_has_keys(scene) and shows(scene, Shown.EVENT):
        return inspector.follow(scene, row(scene))
    if not drawer_has_keys(scene) and inspector.is_plain_work(scene):
        return inspector.show(scene)
    if state.drawer is None or not (drawer_has_keys(scene) or shows(scene, Shown.COLLECTIVE)):
        return open_drawer(scene)
    if shows(scene, Shown.VERSUS):
        return compare_ranks.enter(scene)
    if shows(scene, Shown.CHAIN):
        return causal_zoom.enter(scene)
    if not drawer_has_keys(scene):
        return _follow(scene, 1)
    place, members = row(scene), arrivals(scene)
    if place < len(members):
        return _to_rank(scene, members[place])
    return _follow(scene, place - len(members))


def why_not_enter(scene: Scene) -> str | None:
    """Return the reason when :func:`enter` has no effect."""
    if drawer_has_keys(scene) and shows(scene, Shown.BLOCK):
        return "a block has no link to follow: Y copies it"
    if drawer_has_keys(scene) and shows(scene, Shown.VERSUS):
        return None if compare_ranks.rows(scene) else "nothing is compared yet"
    if drawer_has_keys(scene) and shows(scene, Shown.EVENT):
        return inspector.why_not_follow(scene, row(scene))
    if drawer_has_keys(scene) and shows(scene, Shown.CHAIN):
        return None if causal_zoom.events(scene) else "the chain has no events"
    if not drawer_has_keys(scene) and inspector.is_plain_work(scene):
        return None
    communicator, k = scene.communicator, scene.state.selection.k
    if communicator is None or k is None:
        return "no collective is selected"
    state = scene.state
    if state.drawer is None or drawer_has_keys(scene) or not shows(scene, Shown.COLLECTIVE):
        return None
    if scene.disproved:
        return f"nobody can be blamed: {scene.disproved}"
    detail = described(scene)
    if detail is None:
        return "still finding out why"
    if not detail.stops:
        return "no rank is blamed for this collective"
    if len(detail.stops) == 1:
        return _blame_ends(detail)
    return None


def _blame_ends(detail: Detail) -> str:
    name = rank_name(detail.stops[0].label)
    if detail.instance.root_is_unknown:
        return f"the root is unknown: the trace does not show why {name} was late"
    return f"the blame ends here: {name} was late by itself"


def _to_rank(scene: Scene, member: int) -> ViewState:
    communicator, k = scene.communicator, scene.state.selection.k
    if communicator is None or k is None:
        return scene.state
    time_ns = int(communicator.start_ns[k, member])
    known = bool(communicator.present[k, member])
    state = scene.state.select(rank=communicator.labels[member], time_ns=time_ns if known else None)
    return in_view(replace(state, pane=TIMELINE, drawer=Drawer()))


def _follow(scene: Scene, link: int) -> ViewState:
    detail = described(scene)
    if detail is None or link >= len(detail.stops):
        return scene.state
    stop, state = detail.stops[link], scene.state
    if stop.communicator is not None and stop.k is not None:
        if stop.communicator != state.selection.communicator:
            state = show_communicator(scene, stop.communicator)
        state = state.select(k=stop.k)
    state = state.select(rank=stop.label, time_ns=stop.time_ns)
    return in_view(with_event(replace(state, worst=None, drawer=Drawer()), None))
