"""Events: what is listed of a rank, in which order, and how the cursor moves through it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes import Plan, full_job, own_changed, ready_and_end, scene

from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.window import Window
from ccltui.tui.engine.analysis import answer
from ccltui.tui.moves import view_moves
from ccltui.tui.panes.events import EVENTS as PANE
from ccltui.tui.panes.events import event_query
from ccltui.tui.state.answers import Answered
from ccltui.tui.state.event_table import EventTable, event_table
from ccltui.tui.state.pane_states import (
    ALIGNMENT,
    DEVICE,
    EVENTS,
    EVENTS_STATE,
    IN_TIME,
    OVERVIEW,
    TIMELINE,
    Listing,
    Sorting,
)
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
    chosen = listing or Listing()
    own = {"kind": chosen.kind, "sorting": chosen.sorting, "pattern": chosen.pattern}
    found = own_changed(found, EVENTS_STATE, **own)
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
    found = table_of(events(Listing(sorting=Sorting("lag"))))

    assert found.order[:3].tolist() == [40, 41, 20]


@pytest.mark.parametrize("order", [one.title for one in PANE.columns])
def test_every_order_can_be_reversed(order: str) -> None:
    rows = table_of(events(Listing(sorting=Sorting(order)))).order.tolist()
    back = table_of(events(Listing(sorting=Sorting(order, reverse=True)))).order.tolist()

    assert back == rows[::-1]
    assert sorted(rows) == list(range(84))


@pytest.mark.parametrize(
    ("order", "column", "sign"),
    [("k", "k", 1), ("it", "step", 1), ("this rank late", "late_ns", -1)],
)
def test_each_column_of_collectives_is_an_order(order: str, column: str, sign: int) -> None:
    found = table_of(events(Listing(sorting=Sorting(order))))
    assert found.calls is not None
    values = getattr(found.calls, column)[found.order]

    assert (np.diff(values) * sign >= 0).all()


def test_device_work_can_be_filtered_by_name_and_sorted_by_duration() -> None:
    found = table_of(events(Listing(DEVICE, Sorting("dur"), "GEMM")))

    assert (len(found), found.total) == (84, 168)
    assert {found.name_of(int(row)) for row in found.order} == {"sm90_xmma_gemm_bf16"}
    durations = found.dur_ns[found.order]
    assert (np.diff(durations) <= 0).all()


def test_names_are_sorted_as_text() -> None:
    found = table_of(events(Listing(DEVICE, Sorting("what"))))

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

    assert view_moves.current(found) == 40
    later = found.with_state(view_moves.down(2)(found))
    assert view_moves.current(later) == 42
    assert later.state.selection.k == 42
    assert later.state.selection.time_ns == table_of(later).time_ns(42)


def test_device_work_is_stepped_through_one_by_one_and_found_by_time() -> None:
    found = events(Listing(DEVICE))
    found = found.with_state(view_moves.to_row(found, 80))
    steps = [view_moves.current(found.with_state(view_moves.down(step)(found))) for step in (-1, 1)]
    assert steps == [79, 81]

    at = table_of(found).time_ns(81)
    moved = own_changed(found, EVENTS_STATE, chosen=None)
    moved = moved.with_state(moved.state.select(time_ns=at + 1))
    assert view_moves.current(moved) == 81


def test_another_rank_or_order_asks_for_another_list() -> None:
    found = events()
    before = event_query(found)
    for move in (view_moves.other_rank(1), view_moves.sort(1), view_moves.next_kind):
        assert wanted(found.with_state(move(found))) != [before]
    assert view_moves.other_rank(-9)(found).selection.rank == "0"


def test_sorts_that_device_work_lacks_are_left_out() -> None:
    found = events(Listing(DEVICE, pattern="gemm"))
    orders = [PANE.sorting(found).column]
    for _ in range(3):
        found = found.with_state(view_moves.sort(1)(found))
        orders.append(PANE.sorting(found).column)

    assert orders == ["start", "dur", "what", "start"]
    found = events(Listing(sorting=Sorting("bytes"), pattern="gemm"))
    found = found.with_state(view_moves.next_kind(found))
    own = EVENTS_STATE.of(found.state)
    assert (own.kind, own.sorting, own.pattern) == (DEVICE, IN_TIME, "gemm")


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    found = events()
    query = event_query(found)
    assert query is not None
    elsewhere = found.with_state(view_moves.other_rank(1)(found))

    assert answered(elsewhere, Answered(query, None, "late")) is elsewhere


def test_a_bad_pattern_is_a_problem_not_a_crash() -> None:
    found = scene(pane=EVENTS)
    found = own_changed(found, EVENTS_STATE, pattern="(")
    query = event_query(found)
    assert query is not None

    result = answer(View(full_job(PLAN)), found, query)

    assert result.answer is None
    assert result.problem.startswith(re.error.__name__)
    assert answered(found, result).notice == result.problem


@pytest.mark.parametrize("pane", [OVERVIEW, ALIGNMENT, TIMELINE])
def test_nothing_is_listed_where_no_list_is_in_view(pane: str) -> None:
    assert not [query for query in wanted(scene(pane=pane)) if isinstance(query, EventQuery)]


def test_long_names_are_cut_on_a_narrow_screen_and_the_last_page_is_full() -> None:
    found = events(Listing(DEVICE))
    found = found.with_state(view_moves.last_row(found))
    picture = PANE.paint(found, 18, 60)
    lines = ["".join(map(chr, row)).rstrip() for row in picture.glyph.tolist()]

    assert lines[0].split() == ["▼start", "dur", "what"]
    assert lines[-1].endswith("…") or lines[-2].endswith("…")
    assert list(picture.listed.values()) == list(range(151, 168))
