"""Open an event in the inspector, and follow its links to other events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.tui.moves.cursor import in_view, select_at
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.pane_names import EVENTS, TIMELINE
from ccltui.tui.state.pane_states import DEVICE, EVENTS_STATE, with_event
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Drawer, EventTarget, Shown, ViewState
from ccltui.tui.state.wanted_queries import event_queries

if TYPE_CHECKING:
    from ccltui.metrics.inspection.event_facts import EventReport, Link


def target(scene: Scene) -> EventTarget | None:
    """Return the event under the cursor of the pane in view, None where there is none."""
    return pane_in_view(scene).event_at_cursor(scene)


def why_not_open(scene: Scene) -> str | None:
    """Return the reason when there is no event to open."""
    return None if target(scene) is not None else pane_in_view(scene).why_no_event(scene)


def show(scene: Scene) -> ViewState:
    """Open the event under the cursor; the drawer has the keys, for its links."""
    drawer = Drawer(focused=True, shown=Shown.EVENT)
    return replace(scene.state, event=target(scene), drawer=drawer)


def is_plain_work(scene: Scene) -> bool:
    """Return whether the cursor is on an event that is not the selected collective.

    A collective opens with the reason for its lag; any other event opens as it is.
    """
    event = target(scene)
    if event is None or event.group != "gpu" or scene.state.worst is not None:
        return False
    if scene.state.pane == EVENTS:
        return True
    return scene.state.pane == TIMELINE and not _on_collective(scene)


def _on_collective(scene: Scene) -> bool:
    """Return whether the selected collective of the selected rank runs at the cursor."""
    communicator, chosen = scene.communicator, scene.state.selection
    if communicator is None or chosen.k is None or chosen.time_ns is None:
        return False
    if chosen.rank not in communicator.labels or chosen.k >= len(communicator):
        return False
    member = communicator.labels.index(chosen.rank)
    start = int(communicator.start_ns[chosen.k, member])
    slack = scene.state.time.cell_ns
    end = start + int(communicator.dur_ns[chosen.k, member])
    return start - slack <= chosen.time_ns <= end + slack


def report(scene: Scene) -> EventReport | None:
    """Return the newest report of the event in the drawer, the complete one where it is known."""
    for query in event_queries(scene):
        found = scene.answers.answer(query)
        if found is not None:
            return found
    return None


def problem(scene: Scene) -> str:
    """Return the reason why the drawer is empty, "" while its answer is not known yet."""
    return next(filter(None, map(scene.answers.problem, event_queries(scene))), "")


def links(scene: Scene) -> tuple[Link, ...]:
    """Return the events that the one in the drawer leads to."""
    found = report(scene)
    return () if found is None else found.links


def num_rows(scene: Scene) -> int:
    """Return the rows of the drawer: the links, then one for each line that facts may take.

    Rows below the links scroll the facts.
    """
    found = report(scene)
    return 0 if found is None else len(found.links) + len(found.facts)


def why_not_follow(scene: Scene, row: int) -> str | None:
    """Return the reason when the row leads to no event."""
    found = links(scene)
    if not found:
        return "this event has no links"
    return None if row < len(found) else "k goes back to the links"


def follow(scene: Scene, place: int) -> ViewState:
    """Open the event of a link, and put the cursor of all panes on it."""
    found = links(scene)
    if not 0 <= place < len(found):
        return scene.state
    link = found[place]
    event = EventTarget(link.event.rank, link.event.group, link.event.row)
    state = select_at(scene, event.rank, link.start_ns)
    state = replace(state, event=event, drawer=Drawer(focused=True, shown=Shown.EVENT))
    listed = event.group == "gpu" and EVENTS_STATE.of(state).kind == DEVICE
    return in_view(with_event(state, event.row if listed else None))
