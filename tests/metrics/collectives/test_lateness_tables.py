"""Lateness over time, distributions and worst moments of collectives with known arrivals."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Coll, allreduce, job, kernel, rank_trace, world

from ccltui.metrics.findings.causes.worst_moments import RESOLUTION, worst_moments
from ccltui.metrics.findings.waits.rank_lateness import LEVELS, distributions, late_heat
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

LATE_US = (
    (0, 0, 0, 0),
    (5, 200, 0, 30),
    (40, 0, 0, 300),
)
"""Lateness of three ranks (rows) at four all-reduces that begin 1 ms apart."""
RANKS = len(LATE_US)


def rank(number: int, late_us: tuple[int, ...]) -> RankTrace:
    gpu = []
    for i, late in enumerate(late_us):
        begin = 1000 * i + late
        coll = Coll("allreduce", 1000, 1000, "Float", 0, RANKS, i, 7)
        gpu += [kernel("gemm", begin - 50, 40), allreduce(begin, 1000 * i + 400 - begin, coll)]
    return rank_trace(number, gpu=gpu[1:], groups=[world(RANKS)], world_size=RANKS)


@pytest.fixture
def view() -> View:
    return View(job(*(rank(i, late) for i, late in enumerate(LATE_US))))


def test_a_column_has_the_largest_lateness_of_its_collectives(view: View) -> None:
    heat = late_heat(view, columns=4, most_rows=8)

    assert heat.labels == (("0",), ("1",), ("2",))
    # The first arrival of each all-reduce is at 0, 1, 2, 3 ms, in columns of 0.75 ms.
    assert (heat.late_ns / 1000).tolist() == [list(row) for row in LATE_US]
    assert np.diff(heat.edges_ns).max() - np.diff(heat.edges_ns).min() <= 1
    assert (heat.floor_ns, heat.levels_ns[0], heat.levels_ns[-1]) == (10_000, 10_000, 300_000)
    assert len(heat.levels_ns) == LEVELS + 1
    assert heat.to_dict()["late_us"][2] == [40.0, 0.0, 0.0, 300.0]


def test_a_rank_in_no_collective_of_a_column_is_unknown_and_not_on_time(view: View) -> None:
    heat = late_heat(view, columns=40, most_rows=8)

    assert (heat.late_ns >= 0).sum() == 4 * RANKS
    assert heat.to_dict()["late_us"][0].count(None) == 36


def test_ranks_beyond_the_rows_share_the_largest_lateness(view: View) -> None:
    heat = late_heat(view, columns=4, most_rows=2)

    assert heat.labels == (("0", "1"), ("2",))
    assert (heat.late_ns[0] / 1000).tolist() == [5, 200, 0, 30]


def test_where_nobody_is_late_there_are_no_levels() -> None:
    even = View(job(*(rank(i, (0, i, 0, 0)) for i in range(RANKS))))

    assert late_heat(even, 4, 8).levels_ns.tolist() == []
    assert worst_moments(even, count=3, examined=100, most_ranks=8) == []


def test_one_rank_has_no_lateness() -> None:
    alone = View(job(rank(0, LATE_US[0])))

    for table in (lambda: late_heat(alone, 4, 8), lambda: distributions(alone)):
        with pytest.raises(Refusal):
            table()


def test_quantiles_are_those_of_the_sorted_times(view: View) -> None:
    lag, wait, duration = distributions(view)

    assert [one.name for one in (lag, wait, duration)] == ["lag", "wait", "duration"]
    assert lag.summary == {"p50": 120.0, "p95": 300.0, "max": 300.0, "n": 4}
    assert lag.times_ns[[0, 25, 26, 50, 75, 76, 100]].tolist() == [
        one * 1000 for one in (0, 0, 40, 40, 200, 300, 300)
    ]
    # The rank of the lag waits nothing, the others what separates them from it.
    waits = sorted(max(at) - one for at in zip(*LATE_US, strict=True) for one in at)
    durations = sorted(400 - one for at in LATE_US for one in at)
    for found, times in ((wait, waits), (duration, durations)):
        assert found.summary["n"] == 12
        place = [max(-(-12 * percent // 100), 1) - 1 for percent in range(101)]
        assert found.times_ns.tolist() == [times[i] * 1000 for i in place]


def test_the_worst_moments_come_first_and_do_not_overlap(view: View) -> None:
    found = worst_moments(view, count=3, examined=100, most_ranks=8)

    assert [one.instance.last for one in found] == ["2", "1", "2"]
    assert [one.caused_wait_ns for one in found] == [570_000, 400_000, 75_000]
    assert found[0].to_dict()["lag_us"] == 300.0
    spans = sorted((one.start_ns, one.end_ns) for one in found)
    assert all(begin < end for begin, end in spans)


def test_a_lane_has_the_work_around_the_moment_and_the_arrival(view: View) -> None:
    worst = worst_moments(view, count=1, examined=100, most_ranks=8)[0]
    first, second, last = worst.lanes

    origin = view.origin_ns
    assert origin == 0
    assert (worst.start_ns, worst.end_ns) == (3_000_000 - 200_000, 3_400_000 + 50_000)
    assert (first.arrival_ns, first.until_ns) == (3_000_000, 3_300_000)
    assert (second.arrival_ns, second.until_ns) == (3_030_000, 3_300_000)
    assert (last.arrival_ns, last.until_ns) == (3_300_000, 3_300_000)
    assert (last.compute.start_ns.tolist(), last.compute.end_ns.tolist()) == (
        [3_250_000],
        [3_290_000],
    )
    assert last.communication.start_ns.tolist() == [3_300_000]


def test_of_many_ranks_the_latest_and_the_earliest_are_drawn(view: View) -> None:
    worst = worst_moments(view, count=1, examined=100, most_ranks=2)[0]

    assert [lane.label for lane in worst.lanes] == ["0", "2"]
    assert worst.num_ranks == RANKS


def test_another_kind_of_moment_precedes_a_repetition() -> None:
    late = ((0, 0, 0, 0), (0, 0, 0, 60), (0, 300, 250, 0))
    view = View(job(*(rank(i, one) for i, one in enumerate(late))))

    found = worst_moments(view, count=3, examined=100, most_ranks=8)

    assert [(one.instance.last, one.instance.row) for one in found] == [
        ("2", 1),
        ("2", 2),
        ("1", 3),
    ]
    assert worst_moments(view, count=2, examined=100, most_ranks=8)[1].instance.last == "1"


def test_intervals_are_bounded_however_many_kernels_there_are() -> None:
    short = [kernel("gemm", i * 2, 1) for i in range(2500)]
    ranks = []
    for number in range(2):
        coll = Coll("allreduce", 1000, 1000, "Float", 0, 2, 0, 7)
        begin = 2000 if number else 100
        gpu = [*short, allreduce(begin, 4900 - begin, coll)]
        ranks.append(rank_trace(number, gpu=gpu, groups=[world(2)], world_size=2))

    (worst,) = worst_moments(View(job(*ranks)), count=3, examined=100, most_ranks=8)

    assert all(0 < len(lane.compute) <= RESOLUTION for lane in worst.lanes)


def test_the_sender_of_a_broadcast_is_the_last() -> None:
    ranks = []
    for number, begin in enumerate((900, 100)):
        first = Coll("allreduce", 1000, 1000, "Float", 0, 2, 0, 7)
        coll = Coll("broadcast", 1000, 1000, "Float", 0, 2, 1, 7)
        sent = kernel("ncclDevKernel_Broadcast_RING_LL", begin, 1000 - begin, coll=coll)
        ranks.append(
            rank_trace(number, gpu=[allreduce(0, 50, first), sent], groups=[world(2)], world_size=2)
        )

    (worst,) = worst_moments(View(job(*ranks)), count=3, examined=100, most_ranks=8)

    assert (worst.last, worst.instance.last) == ("0", None)
    assert worst.caused_wait_ns == 800_000


def test_times_as_recorded_are_not_on_one_clock(view: View) -> None:
    for raw in (False, True):
        chosen = view.with_options(raw_clocks=raw)
        (worst,) = worst_moments(chosen, count=1, examined=100, most_ranks=8)
        assert worst.on_one_clock is not raw
