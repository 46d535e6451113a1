"""Begins and ends of slices in an order in which every slice is nested."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccltui.export.perfetto_trace import layers, places
from ccltui.parsers.array_types import I64

SLICES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=24)


def arrays(slices: list[tuple[int, int]]) -> tuple[I64, I64]:
    ordered = sorted(slices, key=lambda one: (one[0], -one[1]))
    start = np.array([one[0] for one in ordered], np.int64)
    return start, start + np.array([one[1] for one in ordered], np.int64)


def is_nested(start: I64, end: I64) -> bool:
    """Whether a stack of open slices closes each as the innermost, at times that ascend."""
    begin_at, end_at = places(start, end)
    events = sorted(
        [(place, "begin", row) for row, place in enumerate(begin_at.tolist())]
        + [(place, "end", row) for row, place in enumerate(end_at.tolist())]
    )
    assert [place for place, _, _ in events] == list(range(2 * len(start)))
    times = [int(start[row] if kind == "begin" else end[row]) for _, kind, row in events]
    assert times == sorted(times)
    stack: list[int] = []
    for _, kind, row in events:
        if kind == "begin":
            stack.append(row)
        elif not stack or stack.pop() != row:
            return False
    return not stack


@given(SLICES)
def test_every_slice_is_on_one_track_and_every_track_is_nested(
    slices: list[tuple[int, int]],
) -> None:
    start, end = arrays(slices)

    tracks = list(layers(start, end))

    assert sorted(row for track in tracks for row in track.tolist()) == list(range(len(start)))
    assert all(is_nested(start[track], end[track]) for track in tracks)


def test_nested_slices_stay_on_one_track() -> None:
    start, end = arrays([(0, 10), (0, 10), (2, 3), (2, 0), (5, 5), (10, 0), (10, 4)])

    assert len(list(layers(start, end))) == 1


def test_slices_that_overlap_get_a_track_each() -> None:
    start, end = arrays([(0, 10), (5, 10), (9, 10), (15, 1)])

    assert [track.tolist() for track in layers(start, end)] == [[0, 3], [1], [2]]
