"""Rows of Overview: how many each part has, which is selected, and how the cursor moves."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ccltui.tui.moves import loss_list
from ccltui.tui.state import metric_list
from ccltui.tui.state.file_rows import capture_rows
from ccltui.tui.state.finding_rows import findings, rank_bars
from ccltui.tui.state.metric_list import chosen_row, items
from ccltui.tui.state.notes import notes
from ccltui.tui.state.pane_names import RANKS, TIMELINE
from ccltui.tui.state.pane_states import (
    OVERVIEW_STATE,
    MetricOrder,
    OverviewState,
    Section,
)
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState


def sections(scene: Scene) -> dict[Section, int]:
    """Return the number of rows of every part."""
    listed = items(scene)
    return {
        Section.FINDINGS: len(findings(scene)),
        Section.RANKS: len(rank_bars(scene)) if listed else 0,
        Section.CAPTURES: len(capture_rows(scene.session)),
        Section.METRICS: len(listed),
        Section.NOTES: len(notes(scene)) if listed else 0,
    }


def section_of(scene: Scene) -> Section:
    """Return the part with the cursor: the first one with rows where that in the state has none."""
    chosen, sizes = OVERVIEW_STATE.of(scene.state).section, sections(scene)
    if sizes[chosen]:
        return chosen
    return next((section for section, size in sizes.items() if size), Section.METRICS)


def shows_first_screen(scene: Scene) -> bool:
    """Return whether findings and ranks are in view, not the list of metrics and remarks."""
    return OVERVIEW_STATE.of(scene.state).section not in (Section.METRICS, Section.NOTES)


def chosen_of(scene: Scene, section: Section) -> int:
    """Return the selected row of a part, within those that it has."""
    own = OVERVIEW_STATE.of(scene.state)
    rows = {
        Section.FINDINGS: own.loss,
        Section.RANKS: own.rank,
        Section.CAPTURES: own.capture,
        Section.METRICS: chosen_row(scene),
        Section.NOTES: own.note,
    }
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
            elif section is Section.CAPTURES:
                state = replace(state, capture=row)
            elif section is Section.METRICS:
                state = replace(state, item=items(scene)[row].key)
            else:
                state = replace(state, note=row)
            return OVERVIEW_STATE.put(scene.state, state)
        row -= size
    return scene.state


def open_row(scene: Scene) -> ViewState:
    """Show the evidence of a finding, a rank, the table of a metric, a group, or a remark."""
    own, section = OVERVIEW_STATE.of(scene.state), section_of(scene)
    if section is Section.FINDINGS:
        return loss_list.show(scene, chosen_of(scene, section))
    if section is Section.RANKS:
        row = rank_bars(scene)[chosen_of(scene, section)]
        pane = TIMELINE if len(row.labels) == 1 else RANKS
        return replace(scene.state.select(rank=row.labels[0]), pane=pane, drawer=None)
    if section is Section.CAPTURES:
        return scene.state
    if section is Section.METRICS:
        item = metric_list.chosen_item(scene)
        if item is None or item.metric is None:
            return metric_list.folded(scene)
        own = replace(own, item=item.key)
    own = replace(own, section=section, table_open=True, first_row=0)
    return OVERVIEW_STATE.put(scene.state, own)


def chosen_capture(scene: Scene) -> str | None:
    """Return the capture that enter opens, None where another row or the open one is selected."""
    if section_of(scene) is not Section.CAPTURES or OVERVIEW_STATE.of(scene.state).table_open:
        return None
    return capture_rows(scene.session)[chosen_of(scene, Section.CAPTURES)].capture


def clicked(scene: Scene, row: int) -> ViewState:
    """Select the row under the pointer; of a finding or a rank show the evidence."""
    state = to_row(scene, row)
    there = scene.with_state(state)
    if section_of(there) in (Section.FINDINGS, Section.RANKS):
        return open_row(there)
    return state


def metrics(scene: Scene) -> ViewState:
    """Show the list of all metrics, or the first screen again."""
    own = OVERVIEW_STATE.of(scene.state)
    section = Section.METRICS if shows_first_screen(scene) else Section.FINDINGS
    own = replace(own, section=section, table_open=False)
    return OVERVIEW_STATE.put(scene.state, own)


def fold(scene: Scene) -> ViewState:
    """Fold or unfold the group of the selected metric."""
    return metric_list.folded(scene)


def why_not_fold(scene: Scene) -> str | None:
    """Return the reason when no metric or group is selected."""
    if OVERVIEW_STATE.of(scene.state).table_open:
        return "a table is open: esc closes it"
    if OVERVIEW_STATE.of(scene.state).order is not MetricOrder.GROUP:
        return "the metrics are sorted by a column: o comes back to groups"
    if section_of(scene) is not Section.METRICS or not items(scene):
        return "no metric or group is selected: groups fold"
    return None


def sort(step: int) -> Callable[[Scene], ViewState]:
    """Return a change of the order of the metrics to the next column, or the previous for -1."""

    def move(scene: Scene) -> ViewState:
        own, orders = OVERVIEW_STATE.of(scene.state), metric_list.orders(scene)
        order = orders[(orders.index(own.order) + step) % len(orders)]
        return OVERVIEW_STATE.put(scene.state, replace(_at_metrics(own), order=order))

    return move


def reverse(scene: Scene) -> ViewState:
    """Turn the order of the metrics round."""
    own = OVERVIEW_STATE.of(scene.state)
    return OVERVIEW_STATE.put(scene.state, replace(_at_metrics(own), reverse=not own.reverse))


def _at_metrics(own: OverviewState) -> OverviewState:
    """Return the state with the cursor among the metrics, so that they are in view."""
    return replace(own, section=Section.METRICS)


def filtered(scene: Scene, pattern: str) -> ViewState:
    """List the metrics whose label, name or group matches."""
    own = OVERVIEW_STATE.of(scene.state)
    return OVERVIEW_STATE.put(scene.state, replace(_at_metrics(own), pattern=pattern))


def hide(scene: Scene) -> ViewState:
    """Hide the selected metric, or list all again on the row that counts the hidden ones."""
    own, item = OVERVIEW_STATE.of(scene.state), metric_list.chosen_item(scene)
    if item is None or item.metric is None:
        return metric_list.folded(scene)
    keys = [one.key for one in items(scene)]
    after = keys[min(chosen_row(scene) + 1, len(keys) - 1)]
    own = replace(own, hidden=own.hidden | {item.metric.name}, item=after)
    return OVERVIEW_STATE.put(scene.state, own)


def why_not_hide(scene: Scene) -> str | None:
    """Return the reason when neither a metric nor the count of hidden ones is selected."""
    missing = why_not_sort(scene)
    if missing is not None:
        return missing
    item = metric_list.chosen_item(scene)
    listed = item is not None and (item.metric is not None or item.key == metric_list.HIDDEN)
    if section_of(scene) is Section.METRICS and listed:
        return None
    return "no metric is selected"


def why_not_sort(scene: Scene) -> str | None:
    """Return the reason when no list of metrics is in view."""
    if OVERVIEW_STATE.of(scene.state).table_open:
        return "a table is open: esc closes it"
    return None if scene.findings.metrics else "no metric is known yet"


def why_not_reverse(scene: Scene) -> str | None:
    """Return the reason when the metrics have no order that could be reversed."""
    missing = why_not_sort(scene)
    if missing is None and OVERVIEW_STATE.of(scene.state).order is MetricOrder.GROUP:
        return "the metrics are in groups: o sorts them by a column"
    return missing


def why_none_unavailable(scene: Scene) -> str | None:
    """Return the reason when no metric is unavailable."""
    if any(metric_list.is_unavailable(scene, metric) for metric in scene.findings.metrics):
        return None
    return "no metric is unavailable"
