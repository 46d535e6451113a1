"""Rows of Overview: how many each part has, which is selected, and how the cursor moves."""

from __future__ import annotations

from msgspec.structs import replace

from ccltui.tui.state.file_rows import capture_rows
from ccltui.tui.state.finding_rows import findings, rank_bars
from ccltui.tui.state.pane_names import RANKS, TIMELINE
from ccltui.tui.state.pane_states import OVERVIEW_STATE, Section
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState


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
    from ccltui.tui.moves import loss_list  # noqa: PLC0415  (not needed to start)

    section = section_of(scene)
    if section is Section.FINDINGS and findings(scene):
        return loss_list.show(scene, chosen_of(scene, section))
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
