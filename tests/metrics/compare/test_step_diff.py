"""Differences of two ranks or steps."""

from __future__ import annotations

import pytest
from factories import Event, job, kernel, launch, rank_trace, step

from ccltui.metrics.arrays.sequence_diff import TooDifferentError
from ccltui.metrics.compare.step_diff import (
    ADDED,
    MATCHED,
    MISSING_HERE,
    Side,
    StepDiff,
    step_diff,
)
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace


def rows_of(found: StepDiff) -> list[tuple[int, str, int]]:
    """Op, name and change in us of every row."""
    return [
        (int(op), found.names[name], int(change) // 1000)
        for op, name, change in zip(found.op, found.name, found.change_ns, strict=True)
    ]


def compare(one: RankTrace, other: RankTrace) -> StepDiff:
    return step_diff(View(job(one, other)), Side("0"), Side("1"))


def test_added_missing_and_matched() -> None:
    one = rank_trace(0, gpu=[kernel("a", 0, 10), kernel("b", 20, 10), kernel("c", 40, 10)])
    other = rank_trace(
        1, gpu=[kernel("x", 5, 1), kernel("a", 10, 14), kernel("c", 30, 7), kernel("d", 50, 3)]
    )
    found = compare(one, other)

    assert rows_of(found) == [
        (MATCHED, "a", 4),
        (ADDED, "x", 1),  # before anything matched: at 0
        (MISSING_HERE, "b", -10),
        (MATCHED, "c", -3),
        (ADDED, "d", 3),
    ]
    assert [found.count(op) for op in (MATCHED, ADDED, MISSING_HERE)] == [2, 2, 1]
    assert found.total_ns(MATCHED) == 1000
    assert found.start_ns[1].tolist() == [5_000, 0, -1, 25_000, 45_000]  # since its first work
    assert (found.extent_ns(0), found.extent_ns(1)) == (50_000, 48_000)
    assert found.largest_first[:2].tolist() == [2, 0]


def test_each_stream_is_matched_separately() -> None:
    one = rank_trace(0, gpu=[kernel("a", 0, 1, 7), kernel("b", 1, 1, 9), kernel("a", 2, 1, 7)])
    other = rank_trace(1, gpu=[kernel("b", 0, 1, 9), kernel("a", 1, 1, 7), kernel("a", 2, 1, 7)])
    found = compare(one, other)

    assert found.count(MATCHED) == 3
    assert set(found.streams) == {"7", "9"}
    assert [found.streams[i] for i in found.stream] == ["7", "9", "7"]


def test_streams_of_other_numbers_are_paired_by_their_work() -> None:
    one = rank_trace(0, gpu=[kernel("a", 0, 1, 7), kernel("a", 2, 1, 7)])
    other = rank_trace(1, gpu=[kernel("a", 0, 1, 30), kernel("a", 2, 2, 30)])
    found = compare(one, other)

    assert (found.count(MATCHED), found.streams) == (2, ("7/30",))


def test_two_steps_of_one_rank() -> None:
    trace = rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        runtime=[launch(i, t) for i, t in ((1, 5), (2, 105), (3, 110))],
        gpu=[
            Event("a", 10, 5, correlation=1),
            Event("a", 120, 8, correlation=2),
            Event("b", 130, 8, correlation=3),
        ],
    )
    found = step_diff(View(job(trace)), Side("0", 1), Side("0", 2))

    assert rows_of(found) == [(MATCHED, "a", 3), (ADDED, "b", 8)]


def test_a_side_without_work_matches_nothing() -> None:
    found = compare(rank_trace(0, gpu=[kernel("a", 0, 1)]), rank_trace(1))

    assert rows_of(found) == [(MISSING_HERE, "a", -1)]


def test_unknown_ranks_and_unrelated_sequences_are_refused() -> None:
    one = rank_trace(0, gpu=[kernel("a", i, 1) for i in range(2000)])
    other = rank_trace(1, gpu=[kernel("b", i, 1) for i in range(2000)])

    with pytest.raises(KeyError):
        step_diff(View(job(one)), Side("0"), Side("9"))
    with pytest.raises(TooDifferentError, match="3,000 kernels differ"):
        compare(one, other)
