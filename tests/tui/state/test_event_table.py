"""Events: what is listed of a rank, in which order, and how the cursor moves through it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes import Plan, full_job, own_changed, ready_and_end, scene

from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.window import Window
from ccltui.tui.engine.analysis import answer
from ccltui.tui.moves import row_moves, view_moves
from ccltui.tui.panes.events import event_query
from ccltui.tui.state.answers import Answered
from ccltui.tui.state.event_table import EventTable, event_table
from ccltui.tui.state.pane_names import ALIGNMENT, EVENTS, OVERVIEW, TIMELINE
from ccltui.tui.state.pane_states import EVENTS_STATE, Listed, Listing, Sort
from ccltui.tui.state.query_kinds import EventQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.wanted_queries import answered, listed_events, wanted

PLAN = Plan()


def listed(found: Scene) -> Scene:
    """The scene once what it wants is listed."""
    query = event_query(found)
    assert query is not None
    chosen = ViewOptions(window=found.session.filter.window)
    table = event_table(View(full_job(PLAN), chosen), found.findings, query.rank, query.listing)
    return answered(found, Answered(query, table))


def events(listing: Listing | None = None, rank: str = "3") -> Scene:
    """Events of a rank of the made-up job."""
    found = scene(pane=EVENTS)
    found = own_changed(found, EVENTS_STATE, listing=listing or Listing())
    return listed(found.with_state(found.state.select(rank=rank)))


def table_of(found: Scene) -> EventTable:
    """The list in a scene."""
    table = listed_events(found)
    assert table is not None
    return table


def test_collectives_of_a_rank_with_their_lag_and_how_late_the_rank_was() -> None:
    found = table_of(events(rank="5"))
    ready, end = ready_and_end(PLAN)

    assert len(found) == 84
    assert found.name_of(40) == "AllReduce default_pg 0-7"
    assert found.time_ns(40) == ready[5, 40] - 150_000
    assert found.dur_ns[40] == end[40] - ready[5, 40] + 150_000
    assert found.calls is not None
    assert found.calls.lag_ns[40] == ready[:, 40].max() - ready[:, 40].min()
    assert found.calls.late_ns[40] == found.calls.lag_ns[40]
    assert found.calls.message_bytes[40] == 32 << 20
    assert (found.collective(40), found.calls.step[40]) == ((0, 40), 2)


def test_the_worst_come_first_when_sorted_by_lag() -> None:
    found = table_of(events(Listing(sort=Sort.LAG)))

    assert found.order[:3].tolist() == [40, 41, 20]


@pytest.mark.parametrize("sort", Listing().sorts)
def test_every_order_can_be_reversed(sort: Sort) -> None:
    order = table_of(events(Listing(sort=sort))).order.tolist()

    assert table_of(events(Listing(sort=sort, reverse=True))).order.tolist() == order[::-1]
    assert sorted(order) == list(range(84))


@pytest.mark.parametrize(
    ("sort", "column", "sign"),
    [(Sort.PLACE, "k", 1), (Sort.STEP, "step", 1), (Sort.LATE, "late_ns", -1)],
)
def test_each_column_of_collectives_is_an_order(sort: Sort, column: str, sign: int) -> None:
    found = table_of(events(Listing(sort=sort)))
    assert found.calls is not None
    values = getattr(found.calls, column)[found.order]

    assert (np.diff(values) * sign >= 0).all()


def test_device_work_can_be_filtered_by_name_and_sorted_by_duration() -> None:
    found = table_of(events(Listing(Listed.DEVICE, Sort.DURATION, "GEMM")))

    assert (len(found), found.total) == (84, 168)
    assert {found.name_of(int(row)) for row in found.order} == {"sm90_xmma_gemm_bf16"}
    durations = found.dur_ns[found.order]
    assert (np.diff(durations) <= 0).all()


def test_names_are_sorted_as_text() -> None:
    found = table_of(events(Listing(Listed.DEVICE, Sort.NAME)))

    names = [found.name_of(int(row)) for row in found.order]
    assert names == sorted(names)


def test_a_window_leaves_what_begins_in_it() -> None:
    found = scene(pane=EVENTS, chosen=ViewOptions(Window(10_000_000, 20_000_000)))
    found = listed(found.with_state(found.state.select(rank="0")))
    table = table_of(found)

    times = [table.time_ns(int(row)) for row in table.order]
    assert times
    assert all(10_000_000 <= time < 20_000_000 for time in times)


def test_the_cursor_is_on_the_collective_that_other_panes_chose() -> None:
    found = scene(pane=EVENTS)
    found = listed(found.with_state(view_moves.worst(1)(found)))

    assert row_moves.current(found) == 40
    later = found.with_state(row_moves.down(2)(found))
    assert row_moves.current(later) == 42
    assert later.state.selection.k == 42
    assert later.state.selection.time_ns == table_of(later).time_ns(42)


def test_device_work_is_stepped_through_one_by_one_and_found_by_time() -> None:
    found = events(Listing(Listed.DEVICE))
    found = found.with_state(row_moves.to_row(found, 80))
    steps = [row_moves.current(found.with_state(row_moves.down(step)(found))) for step in (-1, 1)]
    assert steps == [79, 81]

    at = table_of(found).time_ns(81)
    moved = own_changed(found, EVENTS_STATE, event=None)
    moved = moved.with_state(moved.state.select(time_ns=at + 1))
    assert row_moves.current(moved) == 81


def test_another_rank_or_order_asks_for_another_list() -> None:
    found = events()
    before = event_query(found)
    for move in (view_moves.other_rank(1), view_moves.sort, view_moves.switch_list):
        assert wanted(found.with_state(move(found))) != [before]
    assert view_moves.other_rank(-9)(found).selection.rank == "0"


def test_sorts_that_device_work_lacks_are_left_out() -> None:
    orders = [Listing(Listed.DEVICE)]
    for _ in range(3):
        orders.append(orders[-1].sorted_next())

    assert [order.sort for order in orders] == [Sort.TIME, Sort.DURATION, Sort.NAME, Sort.TIME]
    assert Listing(sort=Sort.BYTES).switched() == Listing(Listed.DEVICE, Sort.TIME)


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    found = events()
    query = event_query(found)
    assert query is not None
    elsewhere = found.with_state(view_moves.other_rank(1)(found))

    assert answered(elsewhere, Answered(query, None, "late")) is elsewhere


def test_a_bad_pattern_is_a_problem_not_a_crash() -> None:
    found = scene(pane=EVENTS)
    found = own_changed(found, EVENTS_STATE, listing=Listing(pattern="("))
    query = event_query(found)
    assert query is not None

    result = answer(View(full_job(PLAN)), found, query)

    assert result.answer is None
    assert result.problem.startswith(re.error.__name__)
    assert answered(found, result).notice == result.problem


@pytest.mark.parametrize("pane", [OVERVIEW, ALIGNMENT, TIMELINE])
def test_nothing_is_listed_where_no_list_is_in_view(pane: str) -> None:
    assert not [query for query in wanted(scene(pane=pane)) if isinstance(query, EventQuery)]
