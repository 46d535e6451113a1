"""The metrics of Overview: filtered while it is typed, sorted by any column, hidden and back."""

from __future__ import annotations

import pytest
from fakes import own_changed, scene

from ccltui.parsers.errors import GrammarError
from ccltui.tui.moves import overview_rows
from ccltui.tui.panes import overview_picture
from ccltui.tui.panes.files import FilesPane
from ccltui.tui.panes.overview_pane import OVERVIEW as PANE
from ccltui.tui.state import metric_list
from ccltui.tui.state.metric_list import HIDDEN, UNAVAILABLE, items
from ccltui.tui.state.pane_names import OVERVIEW
from ccltui.tui.state.pane_states import OVERVIEW_STATE, MetricOrder, Section
from ccltui.tui.state.scene import Scene


def keys(found: Scene) -> list[str]:
    return [item.key for item in items(found)]


def sorted_by(order: MetricOrder) -> Scene:
    found = scene(pane=OVERVIEW)
    while OVERVIEW_STATE.of(found.state).order is not order:
        found = found.with_state(overview_rows.sort(1)(found))
    return found


def test_a_list_sorted_by_a_column_has_no_groups_and_unknown_numbers_last() -> None:
    assert keys(sorted_by(MetricOrder.VALUE)) == [
        *("total_calls", "straggler_lag", "step_ms", "findings", UNAVAILABLE)
    ]
    assert keys(sorted_by(MetricOrder.NAME))[:2] == ["total_calls", "findings"]
    by_spread = keys(sorted_by(MetricOrder.SPREAD))
    assert by_spread[0] == "step_ms"  # the only one whose value lies between those of ranks


def test_the_order_is_reversed_and_marked() -> None:
    found = sorted_by(MetricOrder.VALUE)
    turned = found.with_state(overview_rows.reverse(found))

    assert keys(turned)[:4] == keys(found)[:4][::-1]
    text = [overview_picture.paint(one, 60, 120) for one in (found, turned)]
    pages = ["\n".join(one.row_text(y) for y in range(60)) for one in text]
    assert ["▼value" in pages[0], "▴value" in pages[1]] == [True, True]
    assert overview_rows.why_not_reverse(scene(pane=OVERVIEW)) == (
        "the metrics are in groups: o sorts them by a column"
    )


def test_a_filter_finds_metrics_by_label_and_name_in_folded_groups_too() -> None:
    found = scene(pane=OVERVIEW)
    groups = frozenset(key[1:] for key in keys(found) if key.startswith("#"))
    own = OVERVIEW_STATE.of(found.state)
    folded = found.with_state(
        OVERVIEW_STATE.put(found.state, type(own)(folded=groups, section=own.section))
    )
    assert not any(key == "step_ms" for key in keys(folded))

    typed = folded.with_state(PANE.with_row_pattern(folded, "STEP T|total_calls"))

    assert [key for key in keys(typed) if not key.startswith("#")] == ["total_calls", "step_ms"]
    assert PANE.row_pattern(typed) == "STEP T|total_calls"
    nothing = folded.with_state(PANE.with_row_pattern(folded, "zzz"))
    assert keys(nothing) == []
    page = overview_picture.paint(nothing, 60, 120)
    assert any("no metric matches /zzz/" in page.row_text(y) for y in range(60))


def test_a_hidden_metric_is_counted_and_comes_back() -> None:
    found = sorted_by(MetricOrder.VALUE)
    found = found.with_state(overview_rows.to_row(found, len_before(found)))
    hidden = found.with_state(overview_rows.hide(found))

    assert keys(hidden) == ["straggler_lag", "step_ms", "findings", UNAVAILABLE, HIDDEN]
    assert OVERVIEW_STATE.of(hidden.state).item == "straggler_lag"
    at = len_before(hidden) + len(keys(hidden)) - 1
    last = hidden.with_state(overview_rows.to_row(hidden, at))
    assert overview_rows.why_not_hide(last) is None
    assert keys(last.with_state(overview_rows.hide(last))) == keys(found)


def len_before(found: Scene) -> int:
    """Number of rows before the metrics."""
    sizes = overview_rows.sections(found)
    return sum(list(sizes.values())[:2])


def test_columns_are_hidden_and_listed_again_by_name() -> None:
    found = own_changed(scene(pane=OVERVIEW), OVERVIEW_STATE, section=Section.METRICS)
    every = metric_list.columns(found)
    assert every == ("value", "unit", "by rank", "min", "max", "spread", "by step")

    hidden = found.with_state(metric_list.toggled("by r", found))
    hidden = hidden.with_state(metric_list.toggled("-min", hidden))

    assert metric_list.listed_columns(hidden) == ("value", "unit", "max", "spread", "by step")
    assert metric_list.matching("m", hidden) == ["+min", "-max"]
    page = overview_picture.paint(hidden, 60, 150)
    (heading,) = [t for y in range(60) if (t := page.row_text(y)).startswith(" metrics")]
    assert "by rank" not in heading
    assert "by step" in heading
    again = hidden.with_state(metric_list.toggled("min", hidden))
    assert "min" in metric_list.listed_columns(again)
    assert metric_list.listed_columns(hidden.with_state(metric_list.toggled("", hidden))) == every
    with pytest.raises(GrammarError, match="no column 'zz'; there are value, unit"):
        metric_list.toggled("zz", found)


def test_what_is_written_is_what_is_listed_in_its_order() -> None:
    found = sorted_by(MetricOrder.VALUE)
    names = [str(row["metric"]) for row in PANE.records(found)]

    assert names[:4] == keys(found)[:4]
    filtered = found.with_state(PANE.with_row_pattern(found, "STEP T"))
    assert [row["metric"] for row in PANE.records(filtered)] == ["step_ms"]
    without = found.with_state(metric_list.toggled("min", found))
    (first, *_), (other, *_) = PANE.records(found), PANE.records(without)
    assert set(first) - set(other) == {"min", "min_rank"}
    at = found.with_state(overview_rows.to_row(found, len_before(found)))
    hidden = at.with_state(overview_rows.hide(at))
    assert [row["metric"] for row in PANE.records(hidden)] == names[1:]


def test_files_are_filtered_by_any_cell() -> None:
    pane, found = FilesPane(), scene()

    typed = found.with_state(pane.with_row_pattern(found, r"rank[35]\.json"))

    assert pane.count(found) > pane.count(typed) == 2
    assert pane.own.of(typed.state).row == 0
    none = found.with_state(pane.with_row_pattern(found, "zzz"))
    assert pane.count(none) == 0
    assert pane.why_no_rows(none) == "no file matches /zzz/: / changes the filter"
    assert "No file matches /zzz/" in pane.paint(none, 10, 80).row_text(1)
