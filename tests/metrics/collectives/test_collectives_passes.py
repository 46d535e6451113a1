"""The compiled passes of a replay equal those in Python bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from factories import job, kernel, rank_trace
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.collectives.replay.call_links import Links
from ccltui.metrics.collectives.replay.job_replay import Replay
from ccltui.metrics.collectives.replay.rank_timeline import MARK, POST, WAIT, RankTimeline
from ccltui.metrics.collectives.replay.replay_order import END, DeadlockError, Schedule, schedule_of
from ccltui.metrics.device.path_lane import Lane, before_and_last
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

Call = tuple[int, int, bool, int]  # its instance, whose end is awaited behind it, does it wait, ns

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


def line_of(first: int, calls: Sequence[Call], awaited: Sequence[int]) -> RankTimeline:
    """A timeline that posts every call, waits for some of them and ends with a mark."""
    kind, which = [], []
    for index in range(len(calls)):
        kind.append(POST)
        which.append(index)
        if index < len(awaited) and awaited[index] <= index:
            kind.append(WAIT)
            which.append(awaited[index])
    before = [index - back for index, (_, back, _, _) in enumerate(calls)]
    delays = np.arange(len(calls)) * 7 % 5
    return RankTimeline(
        kind=np.array([*kind, MARK], np.int8),
        which=np.array([*which, 0], np.int32),
        progress_ns=np.cumsum(np.arange(len(kind) + 1, dtype=np.int64) * 31 % 17),
        delay_ns=delays,
        behind=np.array([at if 0 <= at < n else -1 for n, at in enumerate(before)], np.int64),
        gap_ns=delays * 3,
        posted_ns=np.zeros(len(calls), np.int64),
        launched_ns=np.zeros(len(calls), np.int64),
        begin_ns=0,
        steps=(40 + first,),
    )


def links_of(ranks: Sequence[Sequence[Call]]) -> Links:
    every = [call for calls in ranks for call in calls]
    instance = np.array([call[0] for call in every], np.int64)
    size = np.bincount(instance[instance >= 0], minlength=4)
    return Links.of(
        tuple(np.cumsum([0, *map(len, ranks)])[:-1].tolist()),
        instance,
        size,
        np.array([call[3] for call in every], np.int64),
        np.array([call[2] and call[0] >= 0 for call in every], np.bool_),
    )


def scheduled(lines: Sequence[RankTimeline], links: Links, accelerated: str) -> Schedule | None:
    with acceleration(accelerated):
        try:
            return schedule_of(lines, links)
        except DeadlockError:
            return None


def replayed(schedule: Schedule, progress: Sequence[np.ndarray], accelerated: str) -> object:
    with acceleration(accelerated):
        return Replay(schedule).run([0] * len(progress), progress)


a_call = st.tuples(st.integers(-1, 3), st.integers(0, 3), st.booleans(), st.integers(0, 1000))
a_rank = st.tuples(st.lists(a_call, max_size=8), st.lists(st.integers(0, 7), max_size=8))


@compiled
@given(st.lists(a_rank, min_size=1, max_size=4), st.floats(0.0, 3.0))
def test_both_find_the_same(ranks: list[tuple[list[Call], list[int]]], factor: float) -> None:
    lines = [line_of(n, *rank) for n, rank in enumerate(ranks)]
    links = links_of([calls for calls, _ in ranks])

    one, other = scheduled(lines, links, "1"), scheduled(lines, links, "0")

    assert (one is None) == (other is None)
    if one is None or other is None:
        return
    for field in ("kind", "rank", "operation", "which"):
        assert getattr(one, field).tolist() == getattr(other, field).tolist()
    progress = [line.progress_ns * factor for line in lines]
    assert replayed(one, progress, "1") == replayed(one, progress, "0")


def two_ranks() -> tuple[list[RankTimeline], Links]:
    """Call 0 of both is one collective, awaited; call 1 of the second is queued behind it."""
    calls: list[list[Call]] = [[(0, 0, True, 50)], [(0, 0, True, 60), (-1, 1, False, 5)]]
    lines = [line_of(0, calls[0], [0]), line_of(1, calls[1], [9, 1])]
    return lines, links_of(calls)


@pytest.mark.parametrize("accelerated", [pytest.param("1", marks=compiled), "0"])
def test_an_order_by_hand(accelerated: str) -> None:
    lines, links = two_ranks()

    schedule = scheduled(lines, links, accelerated)

    assert schedule is not None
    told = zip(schedule.kind.tolist(), schedule.rank.tolist(), schedule.which.tolist(), strict=True)
    # rank 1 runs first and posts call 1 (its second is 2) behind an end that does not follow yet
    assert list(told) == [
        (POST, 1, 1),
        (3, 1, 2),
        (POST, 0, 0),
        (END, -1, 0),
        (4, -1, 2),
        (WAIT, 0, 0),
        (MARK, 0, 0),
        (WAIT, 1, 2),
        (MARK, 1, 0),
    ]


@pytest.mark.parametrize("accelerated", [pytest.param("1", marks=compiled), "0"])
def test_a_replay_by_hand(accelerated: str) -> None:
    lines, links = two_ranks()
    schedule = scheduled(lines, links, accelerated)
    assert schedule is not None

    ended = replayed(
        schedule, [np.array([10.0, 10.0, 11.0]), np.array([30.0, 31.0, 40, 44])], accelerated
    )

    # rank 1 begins its first call at 30, so that it ends at 80 on rank 0 and at 90 on rank 1; its
    # second begins 6 after that and takes 5
    assert ended == [{40: 81.0}, {41: 105.0}]


@pytest.mark.parametrize("accelerated", [pytest.param("1", marks=compiled), "0"])
def test_ranks_that_wait_for_each_other(accelerated: str) -> None:
    # each awaits a collective before it posts the one that the other awaits
    one = line_of(0, [(0, 0, True, 1), (1, 0, True, 1)], [0])
    other = line_of(1, [(1, 0, True, 1), (0, 0, True, 1)], [0])
    links = links_of([[(0, 0, True, 1), (1, 0, True, 1)], [(1, 0, True, 1), (0, 0, True, 1)]])

    assert scheduled([one, other], links, accelerated) is None


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
