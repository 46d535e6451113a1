"""Why a rank is late at collectives behind which the others had work to run meanwhile."""

from __future__ import annotations

from factories import Coll, Event, allreduce, copy, job, kernel, rank_trace, world

from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

SIZE = 4


def rank(
    number: int, work: list[Event], arrivals: tuple[float, float], loading: float
) -> RankTrace:
    """A rank with collectives until 100, 1500 and 1900 µs, whose host loads data from 100 on."""
    starts = (0.0, *arrivals)
    ends = (100.0, 1500.0, 1900.0)
    calls = [
        allreduce(start, end - start, Coll("allreduce", 64, 64, seq=place + 1))
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return rank_trace(
        number,
        gpu=[*calls, *work],
        cpu_ops=[Event("aten::mm", 100 + loading, 700, 1)],
        annotations=[Event("enumerate(DataLoader)#__next__", 100, loading, 1)],
        groups=[world(SIZE)],
        world_size=SIZE,
        host="a",
    )


def cause_at_the_last(
    peers_work: list[Event], late_work: list[Event]
) -> tuple[str | None, str | None]:
    peers = [rank(number, peers_work, (400, 1500.4), 1) for number in range(SIZE - 1)]
    late = rank(SIZE - 1, late_work, (1400, 1700), 1000)
    found = describe(View(job(*peers, late)), 0, 2)
    return found.last, found.cause


def test_work_that_the_others_ran_while_they_waited_is_no_more_work() -> None:
    peers = [kernel("gemm", 100, 300), *(kernel("back", 400 + 50 * n, 50) for n in range(6))]
    late = [kernel("gemm", 1100, 300), *(kernel("back", 1400 + 50 * n, 50) for n in range(6))]

    assert cause_at_the_last(peers, late) == ("3", "data_loading")


def test_a_copy_that_the_others_ran_while_they_waited_is_no_cause() -> None:
    peers = [kernel("gemm", 100, 300), copy(400, 300)]
    late = [kernel("gemm", 1100, 300), copy(1400, 300)]

    assert cause_at_the_last(peers, late) == ("3", "data_loading")
