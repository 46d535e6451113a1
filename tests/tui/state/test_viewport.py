"""Viewports: a pan is an exact shift, a zoom keeps its place, nothing leaves the span."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ccltui.tui.state.view_state import ColumnView, TimeView

TIMES = st.builds(
    TimeView.whole, st.integers(0, 10**6), st.integers(10**6 + 1, 10**12), st.integers(1, 300)
)
COLUMNS = st.builds(ColumnView.whole, st.integers(0, 100_000), st.integers(1, 300))


@given(TIMES)
def test_the_whole_span_is_in_view(view: TimeView) -> None:
    assert view.left_ns <= view.start_ns
    assert view.right_ns >= view.end_ns
    assert view.fit() == view


@given(TIMES, st.integers(0, 12), st.floats(0, 1))
def test_zooming_in_keeps_the_column_and_halves_the_cell(
    view: TimeView, times: int, where: float
) -> None:
    at = view.start_ns + int((view.end_ns - 1 - view.start_ns) * where)
    for _ in range(times):
        closer = view.zoom_in(at)

        assert closer.cell_ns == max(view.cell_ns // 2, 1)
        assert 0 <= closer.column(at) < closer.cells
        assert closer.left_ns + closer.cell_ns > closer.start_ns or closer.k0 >= 0
        view = closer


def test_a_pan_is_a_shift_of_whole_cells_and_stops_at_the_ends() -> None:
    view = TimeView.whole(0, 1_000_000, 100).zoom_in(500_000).zoom_in(500_000)

    moved = view.pan(7)

    assert (moved.k0 - view.k0, moved.cell_ns) == (7, view.cell_ns)
    assert moved.pan(-7) == view
    assert view.pan(-(10**9)).left_ns <= 0
    assert view.pan(10**9).right_ns >= 1_000_000


def test_zooming_out_ends_at_the_whole() -> None:
    whole = TimeView.whole(0, 10**9, 120)
    view = whole
    for _ in range(5):
        view = view.zoom_in(123_456_789)
    for _ in range(6):
        view = view.zoom_out(123_456_789)

    assert view == whole


def test_another_width_or_span_keeps_a_view_of_everything_and_any_other_in_place() -> None:
    whole = TimeView.whole(0, 10**9, 120)
    close = whole.zoom_in(5 * 10**8).zoom_in(5 * 10**8)

    assert whole.resized(200) == TimeView.whole(0, 10**9, 200)
    assert close.resized(200).cell_ns == close.cell_ns
    assert close.resized(200).k0 == close.k0
    assert whole.bounded(10**8, 2 * 10**8) == TimeView.whole(10**8, 2 * 10**8, 120)
    assert close.centred(3 * 10**8).column(3 * 10**8) == 60
    assert close.showing(5 * 10**8) is close
    assert close.showing(10**8) == close.centred(10**8)


@given(
    TIMES, st.integers(0, 12), st.floats(0, 1), st.floats(0, 1), st.lists(st.integers(-500, 500))
)
def test_a_jump_keeps_where_in_its_cell_the_cursor_stands(
    view: TimeView, closer: int, one: float, other: float, pans: list[int]
) -> None:
    span = view.end_ns - 1 - view.start_ns
    was, at = (view.start_ns + int(span * where) for where in (one, other))
    for _ in range(closer):
        view = view.zoom_in(was)
    if view.showing(at) is view:
        return

    jumped = view.showing(at, was)

    assert jumped.cell_ns == view.cell_ns
    assert (at - jumped.left_ns) % view.cell_ns == (was - view.left_ns) % view.cell_ns
    assert 0 <= jumped.column(at) < jumped.cells
    for cells in pans:
        jumped = jumped.pan(cells)
        assert jumped.left_ns > view.start_ns - view.cell_ns
        assert jumped.right_ns < view.end_ns + view.cell_ns
        left = jumped.edge_ns(3)
        assert [jumped.column(left - 1), jumped.column(left)] == [2, 3]
    assert jumped.fit() == view.fit()


@given(COLUMNS, st.lists(st.sampled_from(["in", "out", "left", "right", "fit"]), max_size=20))
def test_columns_stay_aligned_and_within_the_collectives(view: ColumnView, keys: list[str]) -> None:
    for key in keys:
        middle = view.first + view.shown // 2
        match key:
            case "in":
                view = view.zoom_in(middle)
            case "out":
                view = view.zoom_out(middle)
            case "left":
                view = view.pan(-3)
            case "right":
                view = view.pan(3)
            case _:
                view = view.fit()

        assert view.first % view.per_cell == 0
        assert view.per_cell & (view.per_cell - 1) == 0
        assert view.per_cell == 1 or view.repeat == 1
        assert 0 <= view.first <= max(view.count - 1, 0)


@given(COLUMNS.filter(lambda view: view.count > 0), st.floats(0, 1))
def test_showing_brings_a_collective_into_view(view: ColumnView, where: float) -> None:
    k = int((view.count - 1) * where)

    close = view.zoom_in(k).zoom_in(k).showing(k)

    assert close.first <= k < close.first + close.shown
    assert close.centred(k).first <= k


def test_few_collectives_are_wide_and_many_are_pooled() -> None:
    assert ColumnView.whole(20, 100) == ColumnView(20, 100, 0, 1, 5)
    assert ColumnView.whole(84, 72) == ColumnView(84, 72, 0, 2, 1)
    assert ColumnView.whole(20_000, 112).per_cell == 256
    assert ColumnView.whole(0, 50) == ColumnView(0, 50, 0, 1, 1)
