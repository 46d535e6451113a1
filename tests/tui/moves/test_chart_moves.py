"""Moves in charts and in what is measured."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import Plan, own_changed, ready_and_end, scene
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.timeline_chart import Lane, Track
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.numbers import duration, percent_cell
from ccltui.parsers.window import Window
from ccltui.tui.input.prompts import windowed
from ccltui.tui.moves import chart_moves, time_moves, view_moves
from ccltui.tui.panes import metrics, pictures
from ccltui.tui.panes.files import FilesPane
from ccltui.tui.panes.list_pane import matching_columns, with_column
from ccltui.tui.panes.metrics import HIDDEN, UNAVAILABLE
from ccltui.tui.panes.metrics import METRICS as PANE
from ccltui.tui.state.answers import Span
from ccltui.tui.state.communicator import groups_by_size
from ccltui.tui.state.pane_states import (
    ALIGNMENT,
    ALIGNMENT_STATE,
    METRICS,
    TIMELINE,
    TIMELINE_STATE,
)
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Area, Layout, Order


def after(start: Scene, *moved: view_moves.Move) -> Scene:
    """The scene after some moves."""
    for move in moved:
        start = start.with_state(move(start))
    return start


def on(start: Scene, rank: str) -> Scene:
    """The same with another rank selected."""
    return start.with_state(start.state.select(rank=rank))


def test_a_pinned_rank_stays_on_top_of_every_order() -> None:
    found = after(on(scene(), "3"), chart_moves.pin)

    assert found.ranks == ("3", "0", "1", "2", "4", "5", "6", "7")
    assert after(found, chart_moves.order).ranks[:2] == ("3", "5")  # then by the wait caused
    assert after(found, chart_moves.pin).ranks[0] == "0"


def test_orders_follow_each_other() -> None:
    found, seen = scene(), []
    for _ in Order:
        found = after(found, chart_moves.order)
        seen.append(found.state.order)

    assert seen == [Order.WAIT_CAUSED, Order.NODE, Order.GROUP, Order.RANK]


def test_by_node_ranks_of_a_host_stand_together() -> None:
    found = scene()
    nodes = {str(rank): rank % 2 for rank in range(8)}
    found = replace(found, findings=replace(found.findings, nodes=nodes))

    assert after(found, chart_moves.order, chart_moves.order).ranks == tuple("02461357")


def test_by_group_members_of_a_communicator_stand_together() -> None:
    found = scene()
    whole = found.findings.communicators
    assert whole is not None
    pairs = [tuple("04"), tuple("15"), tuple("26"), tuple("37")]
    groups = tuple(replace(whole[0], labels=pair) for pair in reversed(pairs))
    findings = replace(found.findings, communicators=groups, groups=groups_by_size(groups))
    found = replace(found, findings=findings)
    state = replace(found.state, order=Order.GROUP)

    assert found.with_state(state).ranks == tuple("04152637")


def test_with_room_a_rank_is_named_with_its_host_where_there_are_several() -> None:
    found = scene(pane=TIMELINE)
    nodes = {str(rank): rank // 4 for rank in range(8)}
    found = replace(found, findings=replace(found.findings, nodes=nodes))
    assert found.row_name("5") == "r5"

    roomy = found.with_state(replace(found.state, roomy=True))
    assert roomy.row_name("5") == "r5 n1"
    assert pictures.paint_timeline(roomy, 24, 120).row_text(12)[:6] == " r5 n1"
    assert pictures.paint_alignment(roomy, 24, 120).row_text(6)[:6] == " r5 n1"
    one_host = replace(roomy, findings=replace(roomy.findings, nodes=dict.fromkeys("01234567", 0)))
    assert one_host.row_name("5") == "r5"


def test_unfolding_needs_a_rank_with_device_work() -> None:
    found = after(on(scene(pane=TIMELINE), "2"), chart_moves.unfold)

    assert found.state.unfolded == ("2",)
    assert chart_moves.no_streams(found) is None
    assert after(found, chart_moves.unfold).state.unfolded == ()
    nobody = found.with_state(
        replace(found.state, selection=replace(found.state.selection, rank=None))
    )
    assert chart_moves.no_streams(nobody) == "no rank is selected"
    assert chart_moves.pin(nobody) == nobody.state


def test_fewer_ranks_in_alignment_are_a_page_around_the_selected_one() -> None:
    found = on(scene(Plan(ranks=16)), "9")
    closer = after(found, chart_moves.zoom_rows(inwards=True), chart_moves.zoom_rows(inwards=True))

    assert ALIGNMENT_STATE.of(closer.state).ranks_in_view == 4
    planes = pictures.paint_alignment(closer, 24, 80)
    assert [planes.row_text(y)[:4].strip() for y in (1, 4, 7, 10)] == ["r8", "▶r9", "r10", "r11"]
    pinned = after(on(closer, "0"), chart_moves.pin)
    assert pictures.paint_alignment(on(pinned, "9"), 24, 80).row_text(1)[:3] == "•r0"

    wider = after(closer, *[chart_moves.zoom_rows(inwards=False)] * 2)
    assert ALIGNMENT_STATE.of(wider.state).ranks_in_view == 0
    assert chart_moves.why_not_zoom_rows(inwards=False)(wider) == "all ranks are in view"
    one = after(found, *[chart_moves.zoom_rows(inwards=True)] * 6)
    assert chart_moves.why_not_zoom_rows(inwards=True)(one) == "one rank is in view"


def test_more_ranks_in_timeline_share_lanes_but_for_pinned_ones() -> None:
    found = on(scene(Plan(ranks=8), pane=TIMELINE), "5")
    shared = after(found, chart_moves.pin, *[chart_moves.zoom_rows(inwards=False)] * 2)

    assert TIMELINE_STATE.of(shared.state).ranks_per_lane == 4
    labels = [row.label for row in pictures.rank_rows(shared)]
    assert labels == ["r5", "r0-r3", "r4-r7"]
    planes = pictures.paint_timeline(shared, 24, 80)
    assert [y for y in range(24) if "r0-r3" in planes.row_text(y)] == [10]  # below the tall r5

    every = after(shared, chart_moves.zoom_rows(inwards=False))
    assert chart_moves.why_not_zoom_rows(inwards=False)(every) == "one lane holds all ranks"
    alone = after(every, *[chart_moves.zoom_rows(inwards=True)] * 5)
    assert TIMELINE_STATE.of(alone.state).ranks_per_lane == 1
    assert chart_moves.why_not_zoom_rows(inwards=True)(alone) == "every rank has a lane of its own"


def test_centre_and_then_fit_the_collective_on_the_timeline() -> None:
    found = after(scene(pane=TIMELINE), view_moves.zoom(inwards=True), view_moves.worst(1))
    centred = after(found, chart_moves.centre)
    fitted = after(centred, chart_moves.centre)

    communicator = found.communicator
    assert communicator is not None
    start, end = int(communicator.first_ns[40]), communicator.start_ns[40] + communicator.dur_ns[40]
    view = fitted.state.time
    assert view.left_ns <= start < int(end.max()) <= view.right_ns
    assert view.cells * view.cell_ns < 2 * (int(end.max()) - start)


def test_fit_takes_the_measured_area() -> None:
    found = after(scene(pane=TIMELINE), view_moves.zoom(inwards=True), view_moves.worst(1))
    at = found.state.selection.time_ns
    assert at is not None
    found = found.with_state(replace(found.state, area=Area(at - 100_000, at + 100_000)))
    view = after(found, chart_moves.centre, chart_moves.centre).state.time

    assert 200_000 <= view.cells * view.cell_ns < 400_000


def test_centre_and_then_fit_in_alignment_makes_columns_wide() -> None:
    found = after(scene(), view_moves.worst(1), chart_moves.centre, chart_moves.centre)

    assert (found.state.columns.per_cell, found.state.columns.repeat) == (1, 8)
    assert found.state.columns.first <= 40 < found.state.columns.first + found.state.columns.shown


def test_even_colours_leave_only_the_largest_lag_bright() -> None:
    found = scene()
    by_factor = pictures.paint_alignment(found, 24, 160)
    even = pictures.paint_alignment(after(found, chart_moves.scale), 24, 160)

    assert int(even.style[6].max()) == int(by_factor.style[6].max())  # rank 5, the worst
    assert int(even.style[3].max()) < int(by_factor.style[3].max())  # rank 2, 0.9 ms of 12


def test_layouts_follow_each_other_and_end_maximising() -> None:
    found = after(scene(), chart_moves.maximise)
    assert found.state.maximised
    assert not view_moves.back(found).maximised

    seen = []
    for _ in Layout:
        found = after(found, chart_moves.layout)
        seen.append(found.state.layout)
    assert seen == [Layout.SIDE, Layout.SINGLE, Layout.STACK]
    assert not found.state.maximised


@pytest.mark.parametrize("pane", [ALIGNMENT, TIMELINE])
def test_nothing_to_zoom_says_so(pane: str) -> None:
    empty = replace(scene(pane=pane), findings=replace(scene().findings, lanes={}))

    assert chart_moves.why_not_zoom_rows(inwards=True)(empty) == "no rank is loaded yet"


def at(found: Scene, time_ns: int) -> Scene:
    """The cursor of rank 5 at a time."""
    return found.with_state(found.state.select(rank="5", time_ns=time_ns))


def measured(start_ns: int, end_ns: int) -> Scene:
    """v, move, v."""
    found = at(scene(pane=TIMELINE), start_ns)
    found = found.with_state(time_moves.measure(found))
    found = at(found, end_ns)
    return found.with_state(time_moves.measure(found))


def test_an_area_follows_the_cursor_until_it_is_ended() -> None:
    found = at(scene(pane=TIMELINE), 5_000_000)
    assert time_moves.span(found) is None
    found = found.with_state(time_moves.measure(found))
    assert time_moves.span(at(found, 3_000_000)) == Span(3_000_000, 5_000_000)

    ended = measured(5_000_000, 8_000_000)
    assert time_moves.span(at(ended, 0)) == Span(5_000_000, 8_000_000)
    assert ended.with_state(time_moves.measure(at(ended, 1))).state.area == Area(1)
    assert view_moves.back(ended).area is None


def edges_of(found: Scene) -> list[int]:
    """Where computing and communication of rank 5 begin and end, on the clock of the job."""
    lane = found.findings.lanes["5"]
    times = np.concatenate(
        [times for t in (lane.compute, lane.network) for times in (t.start_ns, t.end_ns)]
    )
    own = np.unique(times)
    return [lane.shared(int(time)) - found.findings.origin_ns for time in own]


def test_the_moving_edge_snaps_to_beginnings_and_ends_of_work() -> None:
    found = at(scene(pane=TIMELINE), 5_000_000)
    found = found.with_state(time_moves.measure(found))
    edges = [time for time in edges_of(found) if time > 5_000_000][:6]
    assert len(edges) == 6

    seen = []
    for _ in range(6):
        found = found.with_state(time_moves.event(1)(found))
        seen.append(found.state.selection.time_ns)
    assert seen == edges
    assert time_moves.span(found) == Span(5_000_000, edges[-1])

    for edge in reversed(edges[:-1]):
        found = found.with_state(time_moves.event(-1)(found))
        assert found.state.selection.time_ns == edge

    last = at(found, edges_of(found)[-1])
    assert time_moves.why_no_event(last, 1) == "no later work on this rank"
    assert time_moves.event(1)(last) == last.state
    ended = last.with_state(time_moves.measure(last))
    assert time_moves.why_no_event(ended, -1) is None
    to = time_moves.event(-1)(ended).selection.time_ns
    assert to in ended.findings.calls["5"].start_ns


@given(
    st.integers(-(10**15), 10**15),
    st.floats(-1e-4, 1e-4),
    st.integers(-(10**15), 10**15),
    st.integers(-(10**12), 10**12),
)
def test_a_time_of_a_rank_comes_back_from_the_clock_of_the_job(
    offset: int, drift: float, origin: int, after: int
) -> None:
    lane = Lane("0", Track.empty(), Track.empty(), Track.empty(), offset, drift, origin)
    time = origin + after

    assert abs(lane.shared(int(lane.own(np.array(time)))) - time) <= 1


def test_shares_and_bytes_are_those_of_the_selected_rank() -> None:
    ready, end = ready_and_end(Plan())
    found = measured(int(end[39]), int(end[40]))

    length = int(end[40] - end[39])
    compute = int(ready[5, 40] - end[39]) / length
    network = int(end[40] - ready[5, 40] + 150_000) / length
    assert time_moves.text(found) == (
        f"area {duration(length)}  r5  compute {percent_cell(compute)}  "
        f"net {percent_cell(network)}  both {percent_cell(150_000 / length)}  1 collective 32 MiB"
    )


def test_the_area_becomes_the_window_else_the_view_does() -> None:
    found = measured(5_000_000, 8_000_000)
    assert windowed(found).filter.window == Window(5_000_000, 8_000_000)

    found = found.with_state(replace(found.state, area=None))
    span = found.findings.span
    assert span is not None
    assert windowed(found).filter.window == Window(span.start_ns, span.end_ns)


def test_in_alignment_the_collectives_in_view_become_the_window() -> None:
    found = scene()
    communicator = found.communicator
    assert communicator is not None
    found = found.with_state(replace(found.state, columns=replace(found.state.columns, cells=20)))
    found = found.with_state(view_moves.zoom(inwards=True)(found.with_state(view_moves.fit(found))))
    columns = found.state.columns

    window = windowed(found).filter.window

    assert window is not None
    assert window.start_ns == communicator.first_ns[columns.first]
    assert window.end_ns == communicator.first_ns[columns.first + columns.shown]


def test_an_empty_area_is_no_window() -> None:
    found = measured(5_000_000, 5_000_000)

    assert time_moves.why_no_window(found) == "the area is empty: move the cursor"


def test_the_area_is_marked_on_the_ruler() -> None:
    found = measured(20_000_000, 60_000_000)
    style = pictures.paint_timeline(found, 12, 80).style[0]

    assert (style == Ink.AREA).sum() > 20
    assert (style[:8] != Ink.AREA).all()


COLUMNS = ("value", "unit", "by rank", "min", "max", "spread", "by step")


def keys(found: Scene) -> list[str]:
    return [row.name for row in PANE.rows(found)]


def page(found: Scene, width: int = 120) -> list[str]:
    planes = PANE.paint(found, 60, width)
    return [planes.row_text(y) for y in range(60)]


def sorted_by(column: str) -> Scene:
    found = scene(pane=METRICS)
    while PANE.sorting(found).column != column:
        found = found.with_state(view_moves.sort(1)(found))
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
    turned = found.with_state(view_moves.reverse(found))

    assert keys(turned)[:4] == keys(found)[:4][::-1]
    assert "▼value" in page(found)[0]
    assert "▴value" in page(turned)[0]


def test_a_group_folds_where_there_are_groups() -> None:
    found = scene(pane=METRICS)
    folded = found.with_state(view_moves.fold(found))
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
    last = hidden.with_state(view_moves.last_row(hidden))
    assert metrics.why_not_hide(last) is None
    assert keys(last.with_state(metrics.hide(last))) == keys(found)

    listed = last.with_state(metrics.enter(last))
    assert keys(listed)[-2:] == [HIDDEN, "total_calls"]
    one = listed.with_state(view_moves.last_row(listed))
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

    turned = at.with_state(view_moves.sort(1)(at))
    row = PANE.chosen(turned)
    assert row is not None
    assert row.name == "step_ms"


def test_a_click_on_a_row_that_is_gone_since_it_was_drawn_puts_the_cursor_on_the_last() -> None:
    found = scene(pane=METRICS)
    at = found.with_state(PANE.clicked(found, 99))

    assert PANE.row(at) == len(keys(found)) - 1


def test_files_are_filtered_by_any_cell() -> None:
    pane, found = FilesPane(), scene()

    typed = found.with_state(pane.with_row_pattern(found, r"rank[35]\.json"))

    assert pane.count(found) > pane.count(typed) == 2
    assert pane.own.of(typed.state).row == 0
    none = found.with_state(pane.with_row_pattern(found, "zzz"))
    assert pane.count(none) == 0
    assert pane.why_no_rows(none) == "no file matches /zzz/: / changes the filter"
    assert "No file matches /zzz/" in pane.paint(none, 10, 80).row_text(1)
