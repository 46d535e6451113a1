"""A sample is exact: every cell against the integral of its intervals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pictures import track

from ccltui.draw.timeline_chart import Track

GAPS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12)


@given(GAPS, st.integers(-5, 60), st.integers(1, 13), st.integers(1, 12))
def test_sample_against_counting_every_nanosecond(
    gaps: list[tuple[int, int]], start: int, cell: int, cells: int
) -> None:
    intervals, at = [], 0
    for gap, length in gaps:
        intervals.append((at + gap, at + gap + length))
        at += gap + length
    busy_at = {ns for first, last in intervals for ns in range(first, last)}
    edges = start + cell * np.arange(cells + 1, dtype=np.int64)

    sample = track(*intervals).sample(edges)

    assert track(*intervals).covered_ns(edges).tolist() == sample.covered_ns.tolist()
    assert sample.busy.tolist() == [edge in busy_at for edge in edges.tolist()]
    for index in range(cells):
        low, high = int(edges[index]), int(edges[index + 1])
        inside = [ns for pair in intervals for ns in pair if low < ns < high]
        assert sample.covered_ns[index] == sum(ns in busy_at for ns in range(low, high))
        assert sample.transitions[index] == len(inside)
        assert not inside or sample.first_ns[index] == min(inside)


def test_an_empty_track_is_never_busy() -> None:
    sample = Track.empty().sample(np.array([0, 10, 20], np.int64))

    assert not sample.busy.any()
    assert sample.covered_ns.tolist() == [0, 0]
    assert Track.empty().covered_ns(np.array([0, 10, 20], np.int64)).tolist() == [0, 0]
    assert sample.transitions.tolist() == [0, 0]
