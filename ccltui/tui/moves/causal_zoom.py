"""Open the chain of events behind a late collective, and go from an event to the Timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.tui.moves import loss_list, overview_rows
from ccltui.tui.moves.chart_moves import showing
from ccltui.tui.moves.cursor import call_at, no_collectives
from ccltui.tui.state.finding_rows import findings
from ccltui.tui.state.pane_names import OVERVIEW, TIMELINE
from ccltui.tui.state.pane_states import TIMELINE_STATE, Section
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Drawer, Shown, ViewState
from ccltui.tui.state.wanted_queries import chain_query

if TYPE_CHECKING:
    from ccltui.metrics.findings.causes.instance_report import CausalChain, ChainEvent


def chain(scene: Scene) -> CausalChain | None:
    """Return the chain in the drawer, None while it is being computed."""
    return scene.answers.answer(chain_query(scene))


def problem(scene: Scene) -> str:
    """Return the reason why there is no chain, "" while it is being computed."""
    return scene.answers.problem(chain_query(scene))


def events(scene: Scene) -> tuple[tuple[str, ChainEvent], ...]:
    """Return the events of the chain in order, each with the label of its rank."""
    found = chain(scene)
    return () if found is None else found.events


def show(scene: Scene) -> ViewState:
    """Show the chain of the selected collective, or of the selected finding, in the whole room."""
    state = scene.state
    if state.pane == OVERVIEW:
        state = loss_list.show(scene, overview_rows.chosen_of(scene, Section.FINDINGS))
    return replace(state, drawer=Drawer(focused=True, shown=Shown.CHAIN), maximised=True)


def why_not(scene: Scene) -> str | None:
    """Return the reason when no chain can be shown."""
    if scene.state.pane == OVERVIEW:
        return _why_no_finding(scene)
    if scene.disproved:
        return f"nobody can be blamed: {scene.disproved}"
    if no_collectives(scene) is not None or scene.communicator is None:
        return no_collectives(scene)
    if _is_at_other_finding(scene):
        return "the rank is in no collective here: enter shows the event, a and d go to one"
    return "no collective is selected" if scene.state.selection.k is None else None


def _is_at_other_finding(scene: Scene) -> bool:
    """Whether the cursor is where a finding was opened at which its rank is in no collective.

    The selected collective is then one of another time or group, and explains nothing of it.
    """
    found, selection = loss_list.shown_finding(scene), scene.state.selection
    if found is None or "index" in (found["place"] or ()) or selection.time_ns is None:
        return False
    return call_at(scene, selection.rank, selection.time_ns) is None


def _why_no_finding(scene: Scene) -> str | None:
    found = findings(scene)
    if not found:
        return loss_list.why_no_evidence(scene)
    if overview_rows.section_of(scene) is not Section.FINDINGS:
        return "a chain belongs to a finding: select one"
    chosen = found[overview_rows.chosen_of(scene, Section.FINDINGS)]
    if "index" not in (chosen["place"] or ()):
        return "this finding is of no late collective: enter shows its proof"
    return None


def enter(scene: Scene) -> ViewState:
    """Show the selected event on the Timeline, with streams and host of its rank unfolded."""
    drawer, found = scene.state.drawer, events(scene)
    if drawer is None or not found:
        return scene.state
    label, event = found[min(drawer.row, len(found) - 1)]
    state = scene.state.select(rank=label, time_ns=event.start_ns)
    own = TIMELINE_STATE.of(state)
    state = TIMELINE_STATE.put(state, replace(own, hosts=_with(own.hosts, label)))
    return replace(
        state,
        pane=TIMELINE,
        drawer=None,
        maximised=False,
        unfolded=_with(state.unfolded, label),
        time=showing(state.time, event.start_ns, max(event.end_ns, event.start_ns + 1)),
    )


def _with(ranks: tuple[str, ...], label: str) -> tuple[str, ...]:
    return ranks if label in ranks else (*ranks, label)
