"""Order, pins, streams, rows, scale and layout of charts; no terminal is needed."""

from __future__ import annotations

import pytest
from fakes import Plan, scene
from msgspec.structs import replace

from ccltui.tui.moves import chart_moves, view_moves
from ccltui.tui.panes import alignment_picture, timeline_picture
from ccltui.tui.state.communicator import groups_by_size
from ccltui.tui.state.pane_names import ALIGNMENT, TIMELINE
from ccltui.tui.state.pane_states import ALIGNMENT_STATE, TIMELINE_STATE
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
    assert timeline_picture.paint(roomy, 24, 120).row_text(12)[:6] == " r5 n1"
    assert alignment_picture.paint(roomy, 24, 120).row_text(6)[:6] == " r5 n1"
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
    planes = alignment_picture.paint(closer, 24, 80)
    assert [planes.row_text(y)[:4].strip() for y in (1, 4, 7, 10)] == ["r8", "▶r9", "r10", "r11"]
    pinned = after(on(closer, "0"), chart_moves.pin)
    assert alignment_picture.paint(on(pinned, "9"), 24, 80).row_text(1)[:3] == "•r0"

    wider = after(closer, *[chart_moves.zoom_rows(inwards=False)] * 2)
    assert ALIGNMENT_STATE.of(wider.state).ranks_in_view == 0
    assert chart_moves.why_not_zoom_rows(inwards=False)(wider) == "all ranks are in view"
    one = after(found, *[chart_moves.zoom_rows(inwards=True)] * 6)
    assert chart_moves.why_not_zoom_rows(inwards=True)(one) == "one rank is in view"


def test_more_ranks_in_timeline_share_lanes_but_for_pinned_ones() -> None:
    found = on(scene(Plan(ranks=8), pane=TIMELINE), "5")
    shared = after(found, chart_moves.pin, *[chart_moves.zoom_rows(inwards=False)] * 2)

    assert TIMELINE_STATE.of(shared.state).ranks_per_lane == 4
    labels = [row.label for row in timeline_picture.rank_rows(shared)]
    assert labels == ["r5", "r0-r3", "r4-r7"]
    planes = timeline_picture.paint(shared, 24, 80)
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
    by_factor = alignment_picture.paint(found, 24, 160)
    even = alignment_picture.paint(after(found, chart_moves.scale), 24, 160)

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
