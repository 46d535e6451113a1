"""Rows of the Overview, the cursor among them, and the view that shows each finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ccltui.metrics.confidence import Sure, sure_text
from ccltui.tui.moves.chart_moves import showing
from ccltui.tui.moves.cursor import in_view, select_at, show_communicator, to_collective
from ccltui.tui.state.finding_rows import (
    findings,
    is_computing_files,
    naming,
    rank_bars,
    result_of,
    step_at,
    time_of,
)
from ccltui.tui.state.pane_states import (
    ALIGNMENT,
    HANGS,
    OVERVIEW,
    OVERVIEW_STATE,
    RANKS,
    TIMELINE,
    Section,
)
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import capture_rows
from ccltui.tui.state.view_state import Drawer, ViewState


def sections(scene: Scene) -> dict[Section, int]:
    """Return the number of rows of every part."""
    return {
        Section.FINDINGS: len(findings(scene)),
        Section.RANKS: len(rank_bars(scene)),
        Section.CAPTURES: len(capture_rows(scene.session)),
    }


def section_of(scene: Scene) -> Section:
    """Return the part with the cursor: the first one with rows where that in the state has none."""
    chosen, sizes = OVERVIEW_STATE.of(scene.state).section, sections(scene)
    if sizes[chosen]:
        return chosen
    return next((section for section, size in sizes.items() if size), Section.FINDINGS)


def chosen_of(scene: Scene, section: Section) -> int:
    """Return the selected row of a part, within those that it has."""
    own = OVERVIEW_STATE.of(scene.state)
    rows = {Section.FINDINGS: own.loss, Section.RANKS: own.rank, Section.CAPTURES: own.capture}
    return max(min(rows[section], sections(scene)[section] - 1), 0)


def selected_row(scene: Scene) -> int:
    """Return the selected row, counted over all parts."""
    chosen, before = section_of(scene), 0
    for section, size in sections(scene).items():
        if section is chosen:
            break
        before += size
    return before + chosen_of(scene, chosen)


def to_row(scene: Scene, row: int) -> ViewState:
    """Select a row, counted over all parts."""
    state = OVERVIEW_STATE.of(scene.state)
    for section, size in sections(scene).items():
        if row < size:
            state = replace(state, section=section)
            if section is Section.FINDINGS:
                state = replace(state, loss=row)
            elif section is Section.RANKS:
                state = replace(state, rank=row)
            else:
                state = replace(state, capture=row)
            return OVERVIEW_STATE.put(scene.state, state)
        row -= size
    return scene.state


def open_row(scene: Scene) -> ViewState:
    """Show the evidence of a finding or a rank; a capture is loaded elsewhere."""
    section = section_of(scene)
    if section is Section.FINDINGS and findings(scene):
        return show(scene, chosen_of(scene, section))
    if section is Section.RANKS:
        row = rank_bars(scene)[chosen_of(scene, section)]
        pane = TIMELINE if len(row.labels) == 1 else RANKS
        return replace(scene.state.select(rank=row.labels[0]), pane=pane, drawer=None)
    return scene.state


def chosen_capture(scene: Scene) -> str | None:
    """Return the capture that enter opens, None where another row or the open one is selected."""
    if section_of(scene) is not Section.CAPTURES:
        return None
    return capture_rows(scene.session)[chosen_of(scene, Section.CAPTURES)].capture


def clicked(scene: Scene, row: int) -> ViewState:
    """Select the row under the pointer; of a finding or a rank show the evidence."""
    state = to_row(scene, row)
    there = scene.with_state(state)
    return state if section_of(there) is Section.CAPTURES else open_row(there)


_MOST_IN_STEP = 32
"""Ranks up to which Timeline opens at a step: of 64 a step sends 20.8 kB at 120x40, all 20 kB."""
_AROUND = 3
"""Time span in view around a loss that has a time, as a multiple of its length."""


def why_no_evidence(scene: Scene) -> str | None:
    """Return the reason when no finding can be shown."""
    if findings(scene):
        return None
    result = result_of(scene)
    if result is None:
        waits = scene.session.busy or scene.session.ranks_loaded or is_computing_files(scene)
        return "still computing" if waits else "no rank is loaded"
    return result.reasons[0].message if result.reasons else "nothing is found"


def show_next(scene: Scene) -> ViewState:
    """Show the evidence of the next finding, the largest first; after the last comes the first."""
    found = findings(scene)
    if not found:
        return scene.state
    shown = OVERVIEW_STATE.of(scene.state).shown
    return show(scene, 0 if shown is None else (shown + 1) % len(found))


def show(scene: Scene, index: int) -> ViewState:
    """Show a finding: the collective that ranks waited for, a moment, its kernels or its ranks.

    A hang is shown by what its ranks do. A finding without a place is selected in Overview.
    """
    found = findings(scene)
    index = min(index, len(found) - 1)
    own = OVERVIEW_STATE.of(scene.state)
    own = replace(own, loss=index, shown=index, section=Section.FINDINGS)
    state = OVERVIEW_STATE.put(scene.state, own)
    place = found[index]["place"]
    if found[index]["class"] == "hang":
        return replace(state, pane=HANGS, drawer=None)
    if place is None:
        return replace(state, pane=OVERVIEW, drawer=None)
    state = _at(scene.with_state(state), place)
    return OVERVIEW_STATE.put(state, replace(own, shown_at=state.selection))


def first_place(scene: Scene) -> Mapping[str, Any] | None:
    """Return the place of the first finding that has one, None where none has."""
    return next((row["place"] for row in findings(scene) if row["place"] is not None), None)


def at_first(scene: Scene) -> ViewState:
    """Put the shared cursor on the place of the first finding that has one.

    The Timeline shows the step of that place, where there are steps; the pane stays.
    """
    place = first_place(scene)
    if place is None:
        return scene.state
    there = _at(scene, place)
    state = replace(scene.state, selection=there.selection, columns=there.columns)
    if len(scene.findings.lanes) > _MOST_IN_STEP:
        return state
    return _with_step(scene, state, there.selection.time_ns)


def _at(scene: Scene, place: Mapping[str, Any]) -> ViewState:
    if "index" in place:
        shown = to_instance(scene, place["group_number"], place["index"])
        if shown is not None:
            # The rank of the finding: it may not be the last to arrive at this very collective.
            if place["rank"] in scene.findings.lanes:
                shown = shown.select(rank=place["rank"])
            return _with_step(scene, shown, shown.selection.time_ns)
    return _moment(scene, place)


def _with_step(scene: Scene, state: ViewState, at: int | None) -> ViewState:
    """Return the view with the step at a time on the Timeline; between steps it stays."""
    step = None if at is None else step_at(scene, at)
    if step is None:
        return state
    return replace(state, time=showing(state.time, step.start_ns, step.end_ns))


def shown_finding(scene: Scene) -> Mapping[str, Any] | None:
    """Return the finding that was opened, None where the cursor is no longer at its place."""
    own, found = OVERVIEW_STATE.of(scene.state), findings(scene)
    is_there = own.shown is not None and own.shown < len(found)
    if own.shown is None or not is_there or own.shown_at != scene.state.selection:
        return None
    return found[own.shown]


def sure_of_late_rank(scene: Scene, label: str, sure: Sure) -> str:
    """Return how sure the cause at one collective is, or the finding that is shown.

    A finding that names the rank rests on all collectives, ``sure`` on a single one.
    """
    found = shown_finding(scene)
    if found is None or found is not naming(scene, label):
        return f"{sure.text} (of this collective)"
    return sure_text(found["sure"])


def place_text(scene: Scene) -> str:
    """Return number and name of the finding whose place the cursor is at, "" elsewhere."""
    shown, found = shown_finding(scene), findings(scene)
    if shown is None:
        return ""
    return f"! {found.index(shown) + 1} of {len(found)}: {shown['label']}"


def to_instance(scene: Scene, number: int, row: int) -> ViewState | None:
    """Show instance ``row`` of a matched group in Alignment, None where it is not in view."""
    for index, communicator in enumerate(scene.findings.communicators or ()):
        places = (communicator.row == row).nonzero()[0]
        if communicator.number != number or not len(places):
            continue
        state = replace(scene.state, pane=ALIGNMENT, drawer=Drawer())
        scene = scene.with_state(state)
        if index != state.selection.communicator:
            scene = scene.with_state(show_communicator(scene, index))
        return to_collective(scene, int(places[0]), culprit=True)
    return None


def _moment(scene: Scene, evidence: Mapping[str, Any]) -> ViewState:
    at = time_of(scene, evidence)
    state = replace(scene.state.select(rank=evidence["rank"]), pane=TIMELINE, drawer=None)
    if at is None:
        return state
    length = round(evidence.get("length_us", 0) * 1000)
    if length:
        cell = min(max(-(-length * _AROUND // state.time.cells), 1), state.time.widest_ns)
        view = replace(state.time, cell_ns=cell).centred(at + length // 2)
        state = replace(state, time=view)
    else:
        state = _with_step(scene, state, at)
    at = state.time.nearest(at)
    return in_view(select_at(scene.with_state(state), None, at))
