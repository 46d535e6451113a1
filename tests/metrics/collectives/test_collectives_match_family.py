"""Jobs of many shapes are matched, also in several passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from calls_by_hand import EPOCH_NS
from factories import job, kernel, rank_trace
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from synthetic_calls import Family, draw

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.catalog.time.critical_path import Lane, before_and_last
from ccltui.metrics.collectives.clocks.clock_estimate import match_and_clock
from ccltui.metrics.collectives.implied.implied_groups import implied_groups
from ccltui.metrics.collectives.matching.match import LOW, match_calls
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

TOLD = {
    "sequence numbers": Family(),
    "sequence numbers, calls dropped": Family(dropped=0.02),
    "sizes": Family(numbered=False),
    "sizes, calls dropped": Family(numbered=False, dropped=0.02),
    "sizes without steps, calls dropped": Family(numbered=False, marked=False, dropped=0.02),
    "one size without steps, calls dropped": Family(
        numbered=False, marked=False, dropped=0.02, sizes=(64,)
    ),
}
BARE = {
    "names alone": Family(sized=False, subgroups=False),
    "names alone, calls dropped": Family(sized=False, subgroups=False, dropped=0.02),
    "names alone without steps": Family(
        sized=False, subgroups=False, marked=False, dropped=0.02, per_step=100
    ),
}
SIZES = (2, 4, 8, 16)


def scored(family: Family, seeds: range) -> tuple[int, int, list[int]]:
    right, whole, wrong = 0, 0, [0, 0, 0]
    for seed in seeds:
        job = draw(structs.replace(family, ranks=SIZES[seed % len(SIZES)]), seed)
        matches, _ = match_and_clock(job.inputs, job.groups)
        found, errors = job.score(matches)
        right += found
        whole += len(job.complete)
        wrong = [a + b for a, b in zip(wrong, errors, strict=True)]
    return right, whole, wrong


@pytest.mark.parametrize("name", TOLD)
def test_with_metadata(name: str) -> None:
    right, whole, wrong = scored(TOLD[name], range(12))

    assert right >= 0.999 * whole
    assert wrong[1:] == [0, 0]
    assert wrong[0] <= 0.001 * whole


@pytest.mark.parametrize("name", BARE)
def test_without_metadata(name: str) -> None:
    right, whole, wrong = scored(BARE[name], range(12))

    assert right >= 0.99 * whole
    assert wrong[1:] == [0, 0]


@pytest.mark.parametrize(("dropped", "sizes"), [(0.0, SIZES), (0.01, (*SIZES, 32))])
def test_several_groups_inferred_from_streams(dropped: float, sizes: tuple[int, ...]) -> None:
    """Also of 32 ranks with calls dropped, a job of half of the time of this file."""
    right, whole, wrong = 0, 0, [0, 0, 0]
    for seed, ranks in enumerate(sizes):
        family = Family(ranks, sized=False, dropped=dropped, per_step=100 if ranks < 32 else 300)
        job = draw(family, seed)
        told = implied_groups(job.inputs, job.streams)
        inputs, groups = told.applied(job.inputs, []) if told else (job.inputs, [])
        found, errors = job.score(match_and_clock(inputs, groups)[0])
        right, whole = right + found, whole + len(job.complete)
        wrong = [a + b for a, b in zip(wrong, errors, strict=True)]

    assert right >= 0.99 * whole
    assert wrong[1:] == [0, 0]


def test_several_unnamed_groups_have_low_confidence() -> None:
    _, _, wrong = scored(Family(sized=False), range(12))

    assert wrong[1:] == [0, 0]


@pytest.mark.parametrize("name", [*TOLD, *BARE])
def test_offsets_lie_within_their_error_bar(name: str) -> None:
    family = (TOLD | BARE)[name]
    inside = told = 0
    for seed in range(4):
        job = draw(structs.replace(family, drift=0.0), seed)
        _, clocks = match_and_clock(job.inputs, job.groups)
        for item in job.inputs:
            clock = clocks.clocks[item.label]
            if clock.known and clock.residual_p95_ns is not None and item.rank is not None:
                told += 1
                error = abs(clock.offset_ns - int(job.offsets_ns[item.rank]))
                inside += error <= clock.residual_p95_ns
    assert told
    assert inside >= 0.95 * told


@pytest.mark.parametrize("name", ["sequence numbers, calls dropped", "names alone"])
def test_drifting_clocks_lie_within_their_error_bar(name: str) -> None:
    """At the beginning, in the middle and at the end: 50 ppm are 200 us over such a job."""
    family = (TOLD | BARE)[name]
    inside = told = 0
    for seed, ranks in enumerate((2, 4, 8)):
        job = draw(structs.replace(family, ranks=ranks, steps=200), seed)
        _, clocks = match_and_clock(job.inputs, job.groups)
        for item in job.inputs:
            clock = clocks.clocks[item.label]
            if not clock.known or clock.residual_p95_ns is None or item.rank is None:
                continue
            own = item.calls.end_ns[[0, len(item.calls) // 2, -1]]
            since = own - EPOCH_NS - job.offsets_ns[item.rank]
            true = EPOCH_NS + since / (1 + job.drifts[item.rank])
            error = np.abs(clocks.corrected(item.label, own) - true)
            told += len(own)
            inside += int((error <= clock.residual_p95_ns).sum())
    assert told >= 3 * 10
    assert inside >= 0.95 * told


def test_64_ranks() -> None:
    job = draw(Family(ranks=64, steps=2, per_step=80, numbered=False), 1)

    matches, clocks = match_and_clock(job.inputs, job.groups)

    right, wrong = job.score(matches)
    assert right >= 0.999 * len(job.complete)
    assert wrong == [0, 0, 0]
    assert sum(clock.known for clock in clocks.clocks.values()) > 32


def test_windows_that_open_at_different_times_shift_nothing() -> None:
    late = draw(Family(numbered=False, marked=False, edges=True), 5)
    whole = draw(Family(numbered=False, marked=False, edges=False), 5)

    assert late.score(match_and_clock(late.inputs, late.groups)[0])[0] == len(late.complete)
    assert whole.score(match_and_clock(whole.inputs, whole.groups)[0])[0] == len(whole.complete)


def test_clocks_of_a_large_group_line_up_a_small_one() -> None:
    family = Family(numbered=False, marked=False, dropped=0.06, sizes=(64,), per_step=30)
    better = 0
    for seed in range(8):
        job = draw(family, seed)
        once, _ = job.score(match_calls(job.inputs, job.groups))
        twice, _ = job.score(match_and_clock(job.inputs, job.groups)[0])
        assert twice >= once
        better += twice > once
    assert better


def test_a_call_that_only_one_rank_recorded_is_extra_and_moves_no_other() -> None:
    job = draw(Family(ranks=4, numbered=False, subgroups=False, edges=False), 3)
    lacking = [item for item in job.inputs if item.rank != 2]
    kept = [
        type(item)(item.label, item.rank, "", item.calls.take(np.delete(np.arange(160), 17)))
        for item in lacking
    ]
    full = next(item for item in job.inputs if item.rank == 2)

    (match,) = match_and_clock([*kept, full], job.groups)[0].groups

    alone = np.flatnonzero(~match.complete)
    assert len(alone) == 1
    assert (match.rows[alone[0]] >= 0).tolist() == [False, False, True, False]
    assert match.complete.sum() == 159
    assert (match.confidence[match.complete] > LOW).all()


compiled = pytest.mark.skipif(not available(), reason="the passes were not compiled")


@contextmanager
def acceleration(setting: str) -> Iterator[None]:
    """Reset the cached choice of compiled code, and set the choice of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CCLTUI_ACCEL", setting)
        available.cache_clear()
        try:
            yield
        finally:
            available.cache_clear()


def walked(rank: RankTrace, piece: int, outside: int, accelerated: str) -> tuple[list[int], int]:
    lane = Lane(View(job(rank)).ranks[0])
    lane.jump_lane[3] = 1  # another lane, which is never gone to
    with acceleration(accelerated):
        chain, leads = lane.along(piece, outside)
    return chain.tolist(), leads


@pytest.mark.parametrize("accelerated", [pytest.param("1", marks=compiled), "0"])
def test_the_way_back_along_a_lane(accelerated: str) -> None:
    # two streams: (start, end) of 0 to 6; what ended last before each began is two places before
    spans = [(0, 10), (5, 15), (12, 20), (16, 25), (20, 30), (26, 35), (31, 40)]
    rank = rank_trace(
        0, gpu=[kernel(f"k{n}", start, end - start, n % 2) for n, (start, end) in enumerate(spans)]
    )

    assert walked(rank, 6, 0, accelerated) == ([6, 4, 2, 0], -1)
    assert walked(rank, 6, 3, accelerated) == ([6, 4, 2], -1)  # the first one outside is the last
    assert walked(rank, 5, 0, accelerated) == ([5], 3)
    assert walked(rank, 2, 3, accelerated) == ([2], -1)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=20))
def test_previous_and_furthest_reaching_spans(spans: list[tuple[int, int]]) -> None:
    spans.sort()
    start, end = np.array([(a, a + dur) for a, dur in spans], np.int64).reshape(-1, 2).T.copy()
    order = [(int(ended), place) for place, ended in enumerate(end)]
    before = [max((one for one in order if one[0] <= began), default=(0, -1))[1] for began in start]
    last = [max(order[: place + 1])[1] for place in range(len(order))]

    for accelerated in ("1", "0"):
        with acceleration(accelerated):
            found = before_and_last(start, end)

        assert [column.tolist() for column in found] == [before, last]


@compiled
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=4, max_size=20),
    st.integers(0, 19),
    st.integers(0, 20),
)
def test_both_go_the_same_way(spans: list[tuple[int, int]], piece: int, outside: int) -> None:
    rank = rank_trace(0, gpu=[kernel("k", start, dur) for start, dur in spans])

    place = piece % len(spans)
    assert walked(rank, place, outside, "1") == walked(rank, place, outside, "0")
