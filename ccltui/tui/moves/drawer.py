"""What the drawer shows: a collective, the chain behind it, a block or comparison, an event."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.parsers.errors import GrammarError
from ccltui.tui.moves import loss_list
from ccltui.tui.moves.chart_moves import showing
from ccltui.tui.moves.cursor import (
    call_at,
    in_view,
    no_collectives,
    select_at,
    show_communicator,
    to_time,
)
from ccltui.tui.state.finding_rows import findings
from ccltui.tui.state.pane import drawer_has_keys, pane_in_view
from ccltui.tui.state.pane_states import (
    DEVICE,
    EVENTS,
    EVENTS_STATE,
    OVERVIEW,
    TIMELINE,
    TIMELINE_STATE,
    Section,
    with_event,
)
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Drawer, EventTarget, Shown, Versus, ViewState
from ccltui.tui.state.wanted_queries import (
    block_query,
    chain_query,
    detail_query,
    event_queries,
    versus_query,
    waterfall_query,
)

if TYPE_CHECKING:
    from ccltui.metrics.compare.step_diff import StepDiff, Waterfall
    from ccltui.metrics.device.repetition import Block
    from ccltui.metrics.findings.causes.instance_report import CausalChain, ChainEvent
    from ccltui.metrics.inspection.event_facts import EventReport, Link
    from ccltui.tui.state.query_kinds import Detail

_PART = re.compile(r"r\s*(?P<rank>\S+)|it(?:er)?\s*(?P<step>\d+)", re.IGNORECASE)


def kernel_row(scene: Scene) -> tuple[str, int] | None:
    """Return rank and row of the device work under the cursor, None where there is none."""
    if scene.state.selection.rank not in scene.findings.lanes:
        return None
    return pane_in_view(scene).kernel_row(scene)


def why_no_block(scene: Scene) -> str | None:
    """Return the reason when :func:`show_block` has no block to show."""
    return pane_in_view(scene).why_no_kernel(scene) if kernel_row(scene) is None else None


def show_block(scene: Scene) -> ViewState:
    """Show the block that begins with the kernel under the cursor."""
    drawer = Drawer(focused=True, shown=Shown.BLOCK)
    return replace(scene.state, block=kernel_row(scene), drawer=drawer)


def repeated_block(scene: Scene) -> Block | None:
    """Return the block in the drawer, None until it is computed."""
    return scene.answers.answer(block_query(scene))


def versus(scene: Scene) -> StepDiff | None:
    """Return the comparison in the drawer, None until it is computed."""
    return scene.answers.answer(versus_query(scene))


def waterfall(scene: Scene) -> Waterfall | None:
    """Return the parts of the difference of both sides, None until they are computed."""
    return scene.answers.answer(waterfall_query(scene))


def comparison_problem(scene: Scene) -> str:
    """Return the reason why the drawer is empty, "" while its answer is not known yet."""
    return scene.answers.problem(block_query(scene) or versus_query(scene))


def here(scene: Scene) -> tuple[str, int | None] | None:
    """Return the rank and the step under the cursor, as defined by the pane in view."""
    return pane_in_view(scene).side(scene)


def why_no_versus(scene: Scene) -> str | None:
    """Return the reason when two sides cannot be compared."""
    return "no rank is selected" if here(scene) is None else None


def suggestion(scene: Scene) -> str:
    """Return the side to compare with that the pane in view suggests; "" for none."""
    one = here(scene)
    return "" if one is None else pane_in_view(scene).suggested_side(scene, one)


def suggestions(text: str, scene: Scene) -> list[str]:
    """Return the answers that enter accepts where nothing was typed."""
    found = suggestion(scene)
    return [found] if found and found.startswith(text) else []


def parse_versus(text: str, scene: Scene) -> ViewState:
    """Compare the rank and step under the cursor with those in a text: ``r3``, ``it 4``.

    Raises GrammarError where there is no such rank or step, or both sides are one.
    """
    one = here(scene)
    if one is None:
        raise GrammarError("no rank is selected")
    rank, step = one
    text = text.strip() or suggestion(scene)
    if not text and len(scene.findings.steps) > 1:
        last = scene.findings.steps[-1].id
        raise GrammarError(f"no other rank is recorded: name a step, as in it {last}")
    if not text:
        raise GrammarError("there is one rank and one step alone: nothing to compare with")
    rest = _PART.sub("", text).strip(" ,")
    found = list(_PART.finditer(text))
    if rest or not found:
        raise GrammarError("a rank, a step or both: r3   it 4   r3 it 4")
    for part in found:
        if part["rank"] is not None:
            rank = _rank(part["rank"], scene)
        else:
            step = _step(int(part["step"]), scene)
    if (rank, step) == one:
        raise GrammarError("that is what is selected: name another rank or step")
    drawer = Drawer(focused=True, shown=Shown.VERSUS)
    return replace(scene.state, versus=Versus(one, (rank, step)), drawer=drawer)


def _rank(text: str, scene: Scene) -> str:
    lanes = scene.findings.lanes
    found = next((label for label in lanes if text in (label, rank_name(label))), None)
    if found is None:
        raise GrammarError(f"no rank {text!r}; there are {', '.join(list(lanes)[:8])}")
    return found


def _step(number: int, scene: Scene) -> int:
    known = [step.id for step in scene.findings.steps]
    if number not in known:
        there = f"there are {known[0]} to {known[-1]}" if known else "the traces have no steps"
        raise GrammarError(f"no step {number}: {there}")
    return number


def comparison_rows(scene: Scene) -> list[int]:
    """Return rows of the comparison in the order of the drawer."""
    found, drawer = versus(scene), scene.state.drawer
    if found is None or drawer is None:
        return []
    return found.largest_first.tolist() if drawer.by_size else list(range(len(found)))


def sort_rows(scene: Scene) -> ViewState:
    """Switch between largest changes first and the original order."""
    drawer = scene.state.drawer
    if drawer is None:
        return scene.state
    return replace(scene.state, drawer=replace(drawer, by_size=not drawer.by_size, row=0))


def why_not_sort(scene: Scene) -> str | None:
    """Return the reason when rows cannot be sorted."""
    return None if versus(scene) is not None else "nothing is compared: V compares"


def show_compared(scene: Scene) -> ViewState:
    """Show the kernel of a row of the comparison on the timeline."""
    found, drawer, order = versus(scene), scene.state.drawer, comparison_rows(scene)
    if found is None or drawer is None or not order:
        return scene.state
    row = order[min(drawer.row, len(order) - 1)]
    side = 0 if found.dur_ns[0, row] >= 0 else 1
    label = found.sides[side].label
    at = int(found.origin_ns[side] + found.start_ns[side, row]) - scene.findings.origin_ns
    state = replace(scene.state.select(rank=label), pane=TIMELINE)
    return to_time(scene.with_state(state), at)


def causal_chain(scene: Scene) -> CausalChain | None:
    """Return the chain in the drawer, None while it is being computed."""
    return scene.answers.answer(chain_query(scene))


def chain_problem(scene: Scene) -> str:
    """Return the reason why there is no chain, "" while it is being computed."""
    return scene.answers.problem(chain_query(scene))


def chain_events(scene: Scene) -> tuple[tuple[str, ChainEvent], ...]:
    """Return the events of the chain in order, each with the label of its rank."""
    found = causal_chain(scene)
    return () if found is None else found.events


def show_chain(scene: Scene) -> ViewState:
    """Show the chain of the selected collective, or of the selected finding, in the whole room."""
    state = scene.state
    if state.pane == OVERVIEW:
        state = loss_list.show(scene, loss_list.chosen_of(scene, Section.FINDINGS))
    return replace(state, drawer=Drawer(focused=True, shown=Shown.CHAIN), maximised=True)


def why_no_chain(scene: Scene) -> str | None:
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
    if loss_list.section_of(scene) is not Section.FINDINGS:
        return "a chain belongs to a finding: select one"
    chosen = found[loss_list.chosen_of(scene, Section.FINDINGS)]
    if "index" not in (chosen["place"] or ()):
        return "this finding is of no late collective: enter shows its proof"
    return None


def open_chain_event(scene: Scene) -> ViewState:
    """Show the selected event on the Timeline, with streams and host of its rank unfolded."""
    drawer, found = scene.state.drawer, chain_events(scene)
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


def target(scene: Scene) -> EventTarget | None:
    """Return the event under the cursor of the pane in view, None where there is none."""
    return pane_in_view(scene).event_at_cursor(scene)


def why_not_inspect(scene: Scene) -> str | None:
    """Return the reason when there is no event to open."""
    return None if target(scene) is not None else pane_in_view(scene).why_no_event(scene)


def inspect(scene: Scene) -> ViewState:
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


def event_report(scene: Scene) -> EventReport | None:
    """Return the newest report of the event in the drawer, the complete one where it is known."""
    for query in event_queries(scene):
        found = scene.answers.answer(query)
        if found is not None:
            return found
    return None


def event_problem(scene: Scene) -> str:
    """Return the reason why the drawer is empty, "" while its answer is not known yet."""
    return next(filter(None, map(scene.answers.problem, event_queries(scene))), "")


def event_links(scene: Scene) -> tuple[Link, ...]:
    """Return the events that the one in the drawer leads to."""
    found = event_report(scene)
    return () if found is None else found.links


def num_rows(scene: Scene) -> int:
    """Return the rows of the drawer: the links, then one for each line that facts may take.

    Rows below the links scroll the facts.
    """
    found = event_report(scene)
    return 0 if found is None else len(found.links) + len(found.facts)


def why_not_follow(scene: Scene, row: int) -> str | None:
    """Return the reason when the row leads to no event."""
    found = event_links(scene)
    if not found:
        return "this event has no links"
    return None if row < len(found) else "k goes back to the links"


def follow_link(scene: Scene, place: int) -> ViewState:
    """Open the event of a link, and put the cursor of all panes on it."""
    found = event_links(scene)
    if not 0 <= place < len(found):
        return scene.state
    link = found[place]
    event = EventTarget(link.event.rank, link.event.group, link.event.row)
    state = select_at(scene, event.rank, link.start_ns)
    state = replace(state, event=event, drawer=Drawer(focused=True, shown=Shown.EVENT))
    listed = event.group == "gpu" and EVENTS_STATE.of(state).kind == DEVICE
    return in_view(with_event(state, event.row if listed else None))


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
        found = repeated_block(scene)
        return 0 if found is None else len(found.positions)
    if shows(scene, Shown.VERSUS):
        return len(comparison_rows(scene))
    if shows(scene, Shown.EVENT):
        return num_rows(scene)
    if shows(scene, Shown.CHAIN):
        return len(chain_events(scene))
    detail = described(scene)
    event_links = 0 if detail is None or len(detail.stops) < 2 else len(detail.stops)
    return len(arrivals(scene)) + event_links


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
        return follow_link(scene, row(scene))
    if not drawer_has_keys(scene) and is_plain_work(scene):
        return inspect(scene)
    if state.drawer is None or not (drawer_has_keys(scene) or shows(scene, Shown.COLLECTIVE)):
        return open_drawer(scene)
    if shows(scene, Shown.VERSUS):
        return show_compared(scene)
    if shows(scene, Shown.CHAIN):
        return open_chain_event(scene)
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
        return None if comparison_rows(scene) else "nothing is compared yet"
    if drawer_has_keys(scene) and shows(scene, Shown.EVENT):
        return why_not_follow(scene, row(scene))
    if drawer_has_keys(scene) and shows(scene, Shown.CHAIN):
        return None if chain_events(scene) else "the chain has no events"
    if not drawer_has_keys(scene) and is_plain_work(scene):
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
