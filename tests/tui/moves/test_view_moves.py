"""Keys change the view, and all panes share one cursor. No terminal is needed."""

from __future__ import annotations

import pytest
from fakes import Plan, scene
from msgspec.structs import replace

from ccltui.tui.moves import chart_moves, cursor, time_moves, view_moves
from ccltui.tui.moves.view_moves import Move
from ccltui.tui.panes.chart_pane import collective_text
from ccltui.tui.state.communicator import worst_first
from ccltui.tui.state.pane_states import ALIGNMENT, OVERVIEW, RANKS, TIMELINE, TIMELINE_STATE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Order


def after(start: Scene, *moved: Move) -> Scene:
    """The scene after some moves."""
    for move in moved:
        start = start.with_state(move(start))
    return start


def test_the_worst_is_the_planted_one_and_its_rank_is_selected() -> None:
    found = after(scene(), view_moves.worst(1))

    selection = found.state.selection
    assert (selection.rank, selection.k, found.state.worst) == ("5", 40, 0)

    found = after(found, view_moves.worst(1), view_moves.worst(1))
    assert (found.state.selection.rank, found.state.selection.k) == ("2", 20)

    found = after(found, view_moves.worst(-1))
    assert (found.state.selection.k, found.state.worst) == (41, 1)


def test_the_next_worst_stands_in_its_cell_where_the_last_one_stood() -> None:
    found = after(scene(pane=TIMELINE), view_moves.worst(1), *[view_moves.zoom(inwards=True)] * 4)
    jumped = after(found, view_moves.worst(1), view_moves.worst(1))

    before, now = found.state.time, jumped.state.time
    was, at = found.state.selection.time_ns, jumped.state.selection.time_ns
    assert was is not None
    assert at is not None
    assert abs(at - was) > before.cells * before.cell_ns
    assert (at - now.left_ns) % now.cell_ns == (was - before.left_ns) % before.cell_ns
    assert now.phase_ns != before.phase_ns
    assert now.column(at) == now.cells // 2


def test_the_worst_wraps_around() -> None:
    found = after(scene(), view_moves.worst(-1), view_moves.worst(1))

    assert found.state.worst == 0


def test_the_worst_crosses_communicators_and_the_number_tells_which() -> None:
    start = scene()
    (one,) = start.findings.communicators or ()
    # the second waits two thirds as long: its worst comes between the worst two of the first
    two = replace(one, name="half", wait_ns=one.wait_ns * 2 // 3)
    findings = replace(
        start.findings, communicators=(one, two), worst_first=worst_first((one, two))
    )
    start = replace(start, findings=findings)
    order = worst_first((one, two))
    seen, found = [], start
    for place in range(4):
        found = after(found, view_moves.worst(1))
        seen.append((found.communicator_index, found.state.selection.k))
        assert found.state.worst == place
        text = collective_text(found)
        assert text.startswith(f"{found.communicator_index + 1}/2 ")
        assert f"worst {place + 1}/{len(order)}" in text

    assert seen == list(zip(order.communicator[:4].tolist(), order.k[:4].tolist(), strict=True))
    assert len({index for index, _ in seen}) == 2
    back = after(found, view_moves.worst(-1))
    assert (back.communicator_index, back.state.selection.k) == seen[2]


def test_over_the_floor_goes_by_time_and_heeds_the_floor() -> None:
    start = after(scene(), view_moves.step_collective(0))

    found = after(start, view_moves.over_floor(1))
    assert found.state.selection.k == 20
    assert after(found, view_moves.over_floor(1)).state.selection.k == 40

    raised = after(start, *[view_moves.floor(higher=True)] * 4, view_moves.over_floor(1))
    assert raised.floor_ns == 1_600_000
    assert raised.state.selection.k == 40
    assert after(raised, view_moves.over_floor(-1)).state.selection.k == 40


def test_one_cursor_from_alignment_to_timeline_and_back() -> None:
    aligned = after(scene(), view_moves.worst(1))
    timeline = after(aligned, view_moves.open_pane(TIMELINE))

    assert timeline.state.pane == TIMELINE
    assert timeline.state.selection == aligned.state.selection
    at = timeline.state.selection.time_ns
    assert at is not None
    assert 0 <= timeline.state.time.column(at) < timeline.state.time.cells

    moved = after(timeline, view_moves.across(1))
    assert moved.state.selection.time_ns is not None
    assert moved.state.selection.time_ns > at

    back = after(moved, view_moves.open_pane(ALIGNMENT))
    assert back.state.pane == ALIGNMENT


def test_moving_in_time_selects_the_collective_that_runs_there() -> None:
    found = scene(pane=TIMELINE)
    communicator = found.communicator
    assert communicator is not None

    moved = found.with_state(cursor.to_time(found, communicator.moment_ns(33)))

    assert moved.state.selection.k == 33


def test_events_snap_to_the_rank_s_own_collectives() -> None:
    found = after(scene(pane=TIMELINE), view_moves.down(3), time_moves.event(1))
    starts = found.findings.calls["3"].start_ns

    assert found.state.selection.rank == "3"
    assert found.state.selection.time_ns in starts
    first = found.state.selection.time_ns
    found = after(found, time_moves.event(1), time_moves.event(-1))
    assert found.state.selection.time_ns == first


def test_iterations_are_the_step_markers() -> None:
    found = after(scene(pane=TIMELINE), time_moves.iteration(1), time_moves.iteration(1))

    assert found.state.selection.time_ns == found.findings.steps[2].start_ns
    found = after(found, time_moves.iteration(-1))
    assert found.state.selection.time_ns == found.findings.steps[1].start_ns
    assert time_moves.next_iteration(after(found, *[time_moves.iteration(1)] * 9), 1) is None


@pytest.mark.parametrize("pane", [ALIGNMENT, TIMELINE])
def test_rows(pane: str) -> None:
    found = scene(pane=pane)

    assert after(found, view_moves.last_row).state.selection.rank == "7"
    assert after(found, view_moves.last_row, view_moves.down(1)).state.selection.rank == "7"
    assert after(found, view_moves.down(2), view_moves.down(-1)).state.selection.rank == "1"
    assert after(found, view_moves.page_down(1)).state.selection.rank == "7"
    assert after(found, view_moves.last_row, view_moves.first_row).state.selection.rank == "0"


@pytest.mark.parametrize("pane", [ALIGNMENT, TIMELINE])
def test_zoom_and_pan_leave_the_cursor_alone(pane: str) -> None:
    found = after(scene(pane=pane), view_moves.worst(1))
    selection = found.state.selection

    moved = after(
        found,
        *[view_moves.zoom(inwards=True)] * 3,
        view_moves.pan(1),
        view_moves.pan(-9),
        view_moves.zoom(inwards=False),
        chart_moves.centre,
    )
    assert moved.state.selection == selection
    fitted = after(moved, view_moves.fit)
    assert fitted.state.time == fitted.state.time.fit()


def test_paging_across_moves_the_cursor_by_90_percent() -> None:
    start = after(scene(), *[view_moves.zoom(inwards=True)] * 2, view_moves.step_collective(0))

    paged = after(start, view_moves.page_across(1))

    assert start.state.selection.k == 0
    assert (
        paged.state.selection.k
        == start.state.columns.cells
        * 9
        // 10
        // (start.state.columns.repeat)
        * start.state.columns.per_cell
    )


def test_ranks_by_harm() -> None:
    found = after(scene(pane=TIMELINE), chart_moves.order)

    assert found.state.order is Order.WAIT_CAUSED
    assert found.ranks[0] == "5"
    assert found.members[0] == "5"
    assert after(found, chart_moves.order).ranks[0] == "0"


def test_panes_in_turn() -> None:
    found = scene(pane=OVERVIEW)

    assert after(found, view_moves.next_pane(1)).state.pane == ALIGNMENT
    assert after(found, view_moves.next_pane(-1)).state.pane == RANKS
    assert TIMELINE_STATE.of(after(found, chart_moves.merge).state).merged


def test_a_job_of_one_rank_has_no_collectives_to_walk() -> None:
    found = scene(Plan(ranks=1))

    assert found.findings.communicators == ()
    for move in (
        view_moves.worst(1),
        view_moves.step_collective(1),
        view_moves.over_floor(1),
        time_moves.event(1),
    ):
        assert move(found).selection.k is None
