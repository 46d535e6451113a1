"""The drawer: what it shows of a collective, and where its rows lead."""

from __future__ import annotations

import re

from fakes import Plan, full_job, ready_and_end, scene
from msgspec import structs
from msgspec.structs import replace

from ccltui.metrics.view.job_view import View
from ccltui.tui.actions.action_list import by_id
from ccltui.tui.moves import drawer, row_moves, view_moves
from ccltui.tui.panes.details.collective_drawer import paint
from ccltui.tui.state.answers import Answered, Answers
from ccltui.tui.state.collective_detail import Detail, Stop, detail
from ccltui.tui.state.pane_names import TIMELINE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Drawer
from ccltui.tui.state.wanted_queries import answered, detail_query


def opened(*, focused: bool = False) -> Scene:
    """The drawer over the worst collective, with everything known."""
    found = scene()
    found = found.with_state(view_moves.worst(1)(found))
    found = found.with_state(replace(found.state, drawer=Drawer(focused=focused)))
    query = detail_query(found)
    assert query is not None
    known = detail(View(full_job(Plan())), found.findings, query.number, query.row)
    return answered(found, Answered(query, known))


def with_detail(found: Scene, detail: Detail) -> Scene:
    """The scene with another answer about its collective."""
    query = detail_query(found)
    assert query is not None
    return answered(found, Answered(query, detail))


def picture(found: Scene, height: int = 14, width: int = 110) -> list[str]:
    """Rows of the drawer as text."""
    planes = paint(found, height, width)
    return [planes.row_text(y).rstrip() for y in range(height)]


def cells(row: str) -> list[str]:
    """Cells of a row of a table."""
    return re.split(r"\s{2,}", row.strip())


def test_ranks_by_arrival_with_waits_bandwidth_and_what_they_did() -> None:
    shown = picture(opened())

    assert shown[0].startswith("── default_pg 0-7 AllReduce #40  32 MiB BFloat16  it 2  matched by")
    assert shown[1].split() == [
        *("rank", "arrived", "waited", "dur", "busbw", "mostly", "before", "it", "host")
    ]
    assert cells(shown[2])[:6] == ["r5", "+12 ms", "0 s", "550 us", "106.8", "◀ last"]
    assert cells(shown[3])[:5] == ["r1", "+52.1 us", "12 ms", "12.5 ms", "--"]
    assert "why late: rank 5: 12 ms more computation" in shown[11]
    assert "sm90_xmma_gemm_bf16" in shown[11]


def test_before_the_reason_is_known_the_ranks_are_there() -> None:
    shown = picture(replace(opened(), answers=Answers()))

    assert cells(shown[2])[:4] == ["r5", "+12 ms", "0 s", "550 us"]
    assert shown[11] == " finding out why…"
    assert drawer.why_not_enter(replace(opened(), answers=Answers())) == "still finding out why"


def test_a_tie_blames_nobody() -> None:
    found = opened()
    communicator = found.communicator
    assert communicator is not None
    last = communicator.last.copy()
    last[40] = -1
    tied = replace(communicator, last=last)
    found = replace(found, findings=replace(found.findings, communicators=(tied,)))
    known = drawer.described(found)
    assert known is not None
    instance = structs.replace(known.instance, last=None, chain=(), why=None)
    found = with_detail(found, replace(known, instance=instance, stops=()))

    assert "nobody is blamed" in picture(found)[11]
    assert drawer.why_not_enter(found) == "no rank is blamed for this collective"


def test_ranks_without_room_are_counted_and_reached_by_the_cursor() -> None:
    found = opened(focused=True)
    assert any("more ranks: tab, then j" in row for row in picture(found, 8))

    last = found.with_state(row_moves.last_row(found))
    shown = picture(last, 8)
    assert any(row.startswith("▶r2") for row in shown)


def test_enter_on_a_rank_opens_it_on_the_timeline_when_it_arrived() -> None:
    found = opened(focused=True)
    found = found.with_state(row_moves.down(1)(found))
    ready, _ = ready_and_end(Plan())

    moved = drawer.enter(found)

    assert moved.pane == TIMELINE
    assert moved.selection.rank == "1"
    assert moved.selection.time_ns == ready[1, 40] - 150_000


def test_a_chain_of_one_ends_where_it_begins() -> None:
    found = opened()

    assert drawer.why_not_enter(found) == "the blame ends here: r5 was late by itself"
    assert drawer.count(found) == 8


def test_a_chain_that_ends_with_an_unknown_cause_has_no_root() -> None:
    found = opened()
    known = drawer.described(found)
    assert known is not None
    one = known.instance
    chain = (structs.replace(one.chain[0], cause="unknown"),)
    detail = replace(known, instance=structs.replace(one, chain=chain))

    said = drawer.why_not_enter(with_detail(found, detail))

    assert said == "the root is unknown: the trace does not show why r5 was late"


def with_chain(found: Scene) -> Scene:
    """The same, as if rank 2 at collective 20 had kept rank 5."""
    known = drawer.described(found)
    assert known is not None
    one = known.instance
    instance = structs.replace(
        one, chain=one.chain * 2, chain_sentences=("rank 5 was kept", "rank 2: its kernels")
    )
    stops = (known.stops[0], Stop("2", 33_000_000, 0, 20))
    return with_detail(found, Detail(instance, stops))


def test_enter_follows_the_blame_to_the_collective_where_it_began() -> None:
    found = with_chain(opened())
    assert picture(found)[12:] == ["   rank 5 was kept", " ← rank 2: its kernels"]
    assert drawer.why_not_enter(found) is None

    moved = drawer.enter(found)

    assert (moved.selection.rank, moved.selection.k) == ("2", 20)
    assert moved.selection.time_ns == 33_000_000
    assert moved.drawer == Drawer()


def test_links_of_the_chain_are_rows_too() -> None:
    found = with_chain(opened(focused=True))
    found = found.with_state(row_moves.last_row(found))

    assert drawer.row(found) == 9
    assert picture(found)[13].startswith("▶← rank 2")
    assert drawer.enter(found).selection.k == 20


def test_tab_gives_the_keys_to_the_drawer_and_esc_closes_it_in_two_steps() -> None:
    found = scene()
    found = found.with_state(drawer.enter(found))
    assert found.state.drawer == Drawer()

    found = found.with_state(view_moves.tab(found))
    assert found.state.drawer == Drawer(focused=True)
    found = found.with_state(view_moves.back(found))
    assert found.state.drawer == Drawer()
    assert view_moves.back(found).drawer is None
    assert by_id("app.back").why_not(found) is None


def test_with_room_the_evidence_and_what_is_usual_follow() -> None:
    shown = picture(opened(), 24)
    at = next(i for i, row in enumerate(shown) if "since they last waited" in row) - 1

    assert [row.strip() for row in shown[at + 1 : at + 4]] == [
        "since they last waited for each other: r5 13.1 ms, its peers 1.14 ms (median)",
        "against its peers: compute +12 ms",
        "+12 ms in 1 of sm90_xmma_gemm_bf16, its peers have 1",
    ]
    assert shown[at + 4].startswith(" lag of 84 such calls: median 52.1 us  52.1 us █ ")
    assert shown[at + 5].startswith(" in order of time  ")
