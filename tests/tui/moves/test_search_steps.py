"""Search: what matches, how n and N step, and what stands on the ruler."""

from __future__ import annotations

import pytest
from fakes import Plan, full_job, own_changed, ready_and_end, scene
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.planes import HIT
from ccltui.metrics.view.job_view import View
from ccltui.tui.engine.analysis import answer
from ccltui.tui.moves import time_moves
from ccltui.tui.panes import pictures
from ccltui.tui.panes.events import event_query
from ccltui.tui.state.answers import Answered
from ccltui.tui.state.pane_states import (
    ALIGNMENT,
    COLLECTIVES,
    DEVICE,
    EVENTS,
    EVENTS_STATE,
    TIMELINE,
)
from ccltui.tui.state.query_kinds import HitQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.wanted_queries import answered, hit_query

VIEW = View(full_job(Plan()))


def searched(pattern: str, pane: str, kind: str = COLLECTIVES) -> Scene:
    """The scene once the search is done."""
    found = scene(pane=pane)
    found = own_changed(found, EVENTS_STATE, kind=kind)
    found = found.with_state(replace(found.state, search=pattern).select(rank="3"))
    listed = event_query(found)
    if listed is not None:
        found = answered(found, answer(VIEW, found, listed))
    query = hit_query(found)
    assert query is not None
    return answered(found, answer(VIEW, found, query))


def places(found: Scene) -> list[int]:
    """Where the hits are."""
    hits = found.answers.latest(HitQuery)
    assert hits is not None
    return list(hits.places.tolist())


def test_on_the_timeline_hits_are_kernels_of_the_rank() -> None:
    found = searched("GEMM", TIMELINE)
    _, end = ready_and_end(Plan())

    assert places(found) == [0, *end[:-1].tolist()]
    assert time_moves.count_text(found) == "/GEMM/ 1/84"
    at_start = found.with_state(found.state.select(time_ns=0))
    assert time_moves.next_hit(1)(at_start).selection.time_ns == end[0]
    assert time_moves.next_hit(-1)(at_start).selection.time_ns == end[-2]


@pytest.mark.parametrize("pattern", ["allreduce", "RING_LL"])
def test_in_alignment_hits_are_collectives_by_type_or_kernel(pattern: str) -> None:
    found = searched(pattern, ALIGNMENT)

    assert places(found) == list(range(84))
    moved = time_moves.next_hit(1)(found.with_state(found.state.select(k=7)))
    assert moved.selection.k == 8


def test_in_events_hits_are_rows() -> None:
    found = searched("nccl", EVENTS, DEVICE)

    assert len(places(found)) == 84
    moved = found.with_state(time_moves.next_hit(1)(found))
    assert time_moves.name_at_cursor(moved) == (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    )


def test_nothing_found_names_what_was_seen() -> None:
    found = searched("cutlass", TIMELINE)

    assert time_moves.why_not_next(found) is not None
    assert "no name matches 'cutlass'; seen: " in str(time_moves.why_not_next(found))
    assert "sm90_xmma_gemm_bf16" in str(time_moves.why_not_next(found))
    assert time_moves.next_hit(1)(found) == found.state


def test_before_and_while_searching_n_says_so() -> None:
    assert time_moves.why_not_next(scene()) == "no search yet: / begins one"
    found = scene()
    found = found.with_state(replace(found.state, search="x"))
    assert time_moves.why_not_next(found) == "still searching"
    assert time_moves.count_text(found) == "/x/ …"


def test_names_like_the_one_under_the_cursor() -> None:
    found = scene(pane=TIMELINE)
    found = found.with_state(found.state.select(rank="3", time_ns=1_000))

    assert time_moves.like_this(found).search == "^sm90_xmma_gemm_bf16$"
    aligned = scene()
    aligned = aligned.with_state(aligned.state.select(k=3))
    assert time_moves.like_this(aligned).search == "^AllReduce( |$)"
    nowhere = found.with_state(found.state.select(time_ns=10**12))
    assert time_moves.why_not_like_this(nowhere) == "nothing with a name is under the cursor"


def test_hits_are_marked_on_the_ruler_and_labels_stay_readable() -> None:
    found = searched("gemm", TIMELINE)
    planes = pictures.paint_timeline(found, 12, 80)
    ruler = planes.row_text(0)

    assert HIT in ruler
    assert "20 ms" in ruler
    assert (planes.style[0] == Ink.HIT).any()
    assert (pictures.paint_alignment(searched("All", ALIGNMENT), 12, 80).style[0] == Ink.HIT).any()


def test_another_rank_searches_again_on_the_timeline_but_a_cursor_move_does_not() -> None:
    found = searched("gemm", TIMELINE)
    query = hit_query(found)

    assert hit_query(found.with_state(found.state.select(time_ns=5))) == query
    other = found.with_state(found.state.select(rank="4"))
    assert hit_query(other) != query
    assert query is not None
    assert answered(other, Answered(query)) is other
