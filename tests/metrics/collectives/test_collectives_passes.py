"""The compiled passes along lanes of work equal those in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from factories import job, kernel, rank_trace
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.catalog.time.critical_path import Lane, before_and_last
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

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
