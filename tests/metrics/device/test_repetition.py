"""The repeating block of a kernel."""

from __future__ import annotations

import pytest
from factories import job, kernel, rank_trace, step

from ccltui.metrics.device.repetition import Block, NoBlockError, block_of
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window


def layers(rank: int, scale: int = 1, *, before: str = "") -> RankTrace:
    """Three layers of norm, gemm, gemm on stream 7, each 100 us apart; the third has no gemm.

    ``before`` gives the rank another name first, so that its name ids differ.
    """
    gpu = [kernel(before, 0, 1, 9)] if before else []
    for i in range(2):
        at = 10 + 100 * i
        gpu += [
            kernel("norm", at, 5 * scale),
            kernel("gemm", at + 10, (20 + i) * scale),
            kernel("gemm", at + 50, 30 * scale),
            kernel("other", at + 20, 1, 8),  # on another stream
        ]
    gpu += [kernel("norm", 210, 5), kernel("gemm", 220, 7), kernel("norm", 250, 6)]
    return rank_trace(rank, gpu=gpu)


def of(row: int, *ranks: RankTrace, **options: object) -> Block:
    return block_of(View(job(*ranks), ViewOptions(**options)), "0", row)  # type: ignore[arg-type]


def test_positions_over_repetitions_and_ranks() -> None:
    found = of(0, layers(0), layers(1, 2, before="aaa"))

    assert [one.name for one in found.positions] == ["norm", "gemm", "gemm"]
    assert (found.repetitions, found.others, found.by_rank) == (4, 2, {"0": 2, "1": 2})
    assert (found.stream, found.period_ns) == ("7", 100_000)
    norm, first, _ = found.positions
    assert (norm.count, norm.median_ns, norm.least_ns, norm.most_ns) == (4, 7_500, 5_000, 10_000)
    assert (first.p5_ns, first.p95_ns, first.spread_ns) == (20_000, 42_000, 22_000)
    assert norm.gap_ns == 2_500  # median of 5, 5, 0 and 0 us


def test_a_window_limits_the_repetitions_not_the_block() -> None:
    found = of(0, layers(0), window=Window(100_000, None))

    assert (found.repetitions, found.others) == (1, 1)
    assert found.positions[1].median_ns == 21_000


def test_a_kernel_that_follows_itself_is_a_block_of_one() -> None:
    found = of(1, layers(0))

    assert [one.name for one in found.positions] == ["gemm"]
    assert found.repetitions == 2


@pytest.mark.parametrize(
    ("row", "why"),
    [(9, "norm does not occur again"), (3, "other does not occur again")],
)
def test_the_last_occurrence_of_a_kernel_begins_no_block(row: int, why: str) -> None:
    trace = (
        layers(0)
        if row == 9
        else rank_trace(0, gpu=[*[kernel("a", i, 1) for i in range(3)], kernel("other", 9, 1)])
    )
    row = len(trace.group("gpu")) - 1
    with pytest.raises(NoBlockError, match=why):
        of(row, trace)


def test_no_measured_block_is_an_error() -> None:
    trace = layers(0)
    marked = rank_trace(
        0, gpu=[kernel("a", 0, 1), kernel("a", 5, 1)], annotations=[step(1, 100, 10)]
    )
    with pytest.raises(NoBlockError, match="begins in the measured time"):
        of(0, marked)
    assert of(0, trace).repetitions == 2
