"""The metrics: filtered while it is typed, sorted by any column, hidden and back."""

from __future__ import annotations

import pytest
from fakes import own_changed, scene

from ccltui.parsers.errors import GrammarError
from ccltui.tui.moves import row_moves
from ccltui.tui.panes import metrics
from ccltui.tui.panes.files import FilesPane
from ccltui.tui.panes.list_pane import matching_columns, with_column
from ccltui.tui.panes.metrics import HIDDEN, UNAVAILABLE
from ccltui.tui.panes.metrics import METRICS as PANE
from ccltui.tui.state.pane_names import METRICS
from ccltui.tui.state.scene import Scene

COLUMNS = ("value", "unit", "by rank", "min", "max", "spread", "by step")


def keys(found: Scene) -> list[str]:
    return [row.name for row in PANE.rows(found)]


def page(found: Scene, width: int = 120) -> list[str]:
    planes = PANE.paint(found, 60, width)
    return [planes.row_text(y) for y in range(60)]


def sorted_by(column: str) -> Scene:
    found = scene(pane=METRICS)
    while PANE.sorting(found).column != column:
        found = found.with_state(row_moves.sort(1)(found))
    return found


def test_a_list_sorted_by_a_column_has_no_groups_and_unknown_numbers_last() -> None:
    assert keys(sorted_by("value")) == [
        *("total_calls", "straggler_lag", "step_ms", "findings", UNAVAILABLE)
    ]
    assert keys(sorted_by("metrics"))[:2] == ["total_calls", "findings"]
    by_spread = keys(sorted_by("spread"))
    assert by_spread[0] == "step_ms"  # the only one whose value lies between those of ranks


def test_the_order_is_reversed_and_marked() -> None:
    found = sorted_by("value")
    turned = found.with_state(row_moves.reverse(found))

    assert keys(turned)[:4] == keys(found)[:4][::-1]
    assert "▼value" in page(found)[0]
    assert "▴value" in page(turned)[0]


def test_a_group_folds_where_there_are_groups() -> None:
    found = scene(pane=METRICS)
    folded = found.with_state(row_moves.fold(found))
    assert len(keys(folded)) < len(keys(found))
    assert keys(folded.with_state(metrics.enter(folded))) == keys(found)

    flat = sorted_by("value")
    assert metrics.why_not_fold(flat) == (
        "the metrics are sorted by a column: o comes back to groups"
    )


def test_a_filter_finds_metrics_by_label_and_name_in_folded_groups_too() -> None:
    found = scene(pane=METRICS)
    groups = frozenset(key for key in keys(found) if key.startswith("#") and key != UNAVAILABLE)
    folded = own_changed(found, PANE.own, toggled=groups)
    assert not any(key == "step_ms" for key in keys(folded))

    typed = folded.with_state(PANE.with_row_pattern(folded, "STEP T|total_calls"))

    assert [key for key in keys(typed) if not key.startswith("#")] == ["total_calls", "step_ms"]
    assert PANE.row_pattern(typed) == "STEP T|total_calls"
    assert PANE.listing_text(typed, narrow=False) == "/STEP T|tota…/ 2 of 5 metrics"
    nothing = folded.with_state(PANE.with_row_pattern(folded, "zzz"))
    assert keys(nothing) == []
    assert any("No metric matches /zzz/" in line for line in page(nothing))


def test_a_filter_finds_what_is_unavailable_and_nothing_that_is_hidden() -> None:
    found = scene(pane=METRICS)
    typed = found.with_state(PANE.with_row_pattern(found, "tokens"))
    assert keys(typed) == [UNAVAILABLE, "tokens"]

    at = typed.with_state(PANE.to_row(typed, 1))
    hidden = at.with_state(metrics.hide(at))
    assert keys(hidden) == []
    assert keys(hidden.with_state(PANE.with_row_pattern(hidden, "")))[-1] == HIDDEN


def test_a_hidden_metric_is_counted_and_comes_back() -> None:
    found = sorted_by("value")
    hidden = found.with_state(metrics.hide(found))

    assert keys(hidden) == ["straggler_lag", "step_ms", "findings", UNAVAILABLE, HIDDEN]
    assert PANE.own.of(hidden.state).chosen == "straggler_lag"
    last = hidden.with_state(row_moves.last_row(hidden))
    assert metrics.why_not_hide(last) is None
    assert keys(last.with_state(metrics.hide(last))) == keys(found)

    listed = last.with_state(metrics.enter(last))
    assert keys(listed)[-2:] == [HIDDEN, "total_calls"]
    one = listed.with_state(row_moves.last_row(listed))
    assert keys(one.with_state(metrics.hide(one))) == keys(found)


def test_what_is_unavailable_is_one_line_until_it_is_asked_for() -> None:
    found = scene(pane=METRICS)
    assert keys(found)[-1] == UNAVAILABLE
    assert any("unavailable (1)" in line and "other 1" in line for line in page(found))

    shown = found.with_state(metrics.with_unavailable(found))
    assert keys(shown)[-2:] == [UNAVAILABLE, "tokens"]
    assert any("absent: no workload card here" in line for line in page(shown))
    assert keys(shown.with_state(metrics.with_unavailable(shown))) == keys(found)


def test_columns_are_hidden_and_listed_again_by_name() -> None:
    found = scene(pane=METRICS)
    assert PANE.hideable_columns(found) == COLUMNS

    hidden = found.with_state(with_column("by r", found))
    hidden = hidden.with_state(with_column("-min", hidden))

    shown = [one.title for one in PANE.columns_in(hidden, 150)]
    assert shown == ["metrics", "value", "unit", "max", "spread", "by step"]
    assert matching_columns("m", hidden) == ["+min", "-max"]
    heading = page(hidden, 150)[0]
    assert "by rank" not in heading
    assert "by step" in heading
    again = hidden.with_state(with_column("min", hidden))
    assert matching_columns("m", again) == ["-min", "-max"]
    every = hidden.with_state(with_column("", hidden))
    assert not any(name.startswith("+") for name in matching_columns("", every))
    with pytest.raises(GrammarError, match="no column 'zz'; there are value, unit"):
        with_column("zz", found)


def test_what_is_written_is_what_is_listed_in_its_order() -> None:
    found = sorted_by("value")
    names = [str(row["metric"]) for row in PANE.records(found)]

    assert names[:4] == keys(found)[:4]
    filtered = found.with_state(PANE.with_row_pattern(found, "STEP T"))
    assert [row["metric"] for row in PANE.records(filtered)] == ["step_ms"]
    without = found.with_state(with_column("min", found))
    (first, *_), (other, *_) = PANE.records(found), PANE.records(without)
    assert set(first) - set(other) == {"min", "min_rank"}
    hidden = found.with_state(metrics.hide(found))
    assert [row["metric"] for row in PANE.records(hidden)] == names[1:]


def test_the_cursor_stays_on_its_metric_when_others_go() -> None:
    found = scene(pane=METRICS)
    at = found.with_state(PANE.to_row(found, keys(found).index("step_ms")))

    turned = at.with_state(row_moves.sort(1)(at))
    row = PANE.chosen(turned)
    assert row is not None
    assert row.name == "step_ms"


def test_files_are_filtered_by_any_cell() -> None:
    pane, found = FilesPane(), scene()

    typed = found.with_state(pane.with_row_pattern(found, r"rank[35]\.json"))

    assert pane.count(found) > pane.count(typed) == 2
    assert pane.own.of(typed.state).row == 0
    none = found.with_state(pane.with_row_pattern(found, "zzz"))
    assert pane.count(none) == 0
    assert pane.why_no_rows(none) == "no file matches /zzz/: / changes the filter"
    assert "No file matches /zzz/" in pane.paint(none, 10, 80).row_text(1)
