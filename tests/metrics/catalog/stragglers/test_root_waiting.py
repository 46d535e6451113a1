"""Who is named for the waiting of a job: materiality, ranks that are out or absent, broadcasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, step, world

from ccltui.metrics.catalog.stragglers.blame_chain import blame_chain
from ccltui.metrics.catalog.stragglers.straggler_cause import straggler_cause
from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.findings.causes import roots
from ccltui.metrics.findings.rank_time.partition import partition
from ccltui.metrics.view.collective_selection import exposed_waits
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.match_quality import coverage_of
from ccltui.parsers.columns import ProcessGroup, RankTrace

COUNT, PERIOD_US = 8, 10_000
STEPS = [step(number, PERIOD_US * 2 * number, PERIOD_US * 2 - 1) for number in range(COUNT // 2)]


def worker(
    number: int,
    late_us: float,
    *,
    size: int = 4,
    op: str = "allreduce",
    hidden: bool = False,
    keep: range = range(COUNT),
    sizes: tuple[int, ...] = (64,),
    for_absent_us: float = 0.0,
    groups: list[ProcessGroup] | None = None,
) -> RankTrace:
    """A rank that computes 5 ms and ``late_us`` more before each collective, which all end at once.

    ``hidden``: a kernel runs during the collective. ``for_absent_us``: every second collective
    takes this much longer on all ranks. ``keep`` are the collectives in its file.
    """
    gpu: list[Event] = []
    for place in keep:
        begin = PERIOD_US * place
        end = begin + 9_000.0
        elems = sizes[place % len(sizes)]
        start = begin + 5_000 + late_us
        if for_absent_us:
            start = end - 500 - (for_absent_us if place % 2 else 0) + late_us
        gpu.append(kernel("gemm", begin, 5_000 + late_us))
        seq = Coll(op, elems, elems, group=0, group_size=size, seq=place)
        gpu.append(allreduce(start, end - start, seq))
        if hidden:
            gpu.append(kernel("gemm", start, end - start, stream=9))
    return rank_trace(
        number,
        gpu=gpu,
        annotations=STEPS,
        groups=groups or [world(size)],
        world_size=size,
        host="a",
    )


def named(view: View) -> list[Any]:
    details = blame_chain.run(view).details
    return [details[f"root_{key}"] for key in ("rank", "cause", "confidence")]


def four(late_us: float, **more: Any) -> View:
    return View(job(*(worker(rank, late_us if rank == 2 else 0.0, **more) for rank in range(4))))


def test_a_rank_is_named_from_one_per_cent_of_the_time_of_all_ranks_on() -> None:
    # three ranks wait for one of four: 1 % of 10 ms is 133 us of each of them
    assert named(four(140)) == ["2", "compute", "high"]
    quiet = four(120)

    details = blame_chain.run(quiet).details
    assert named(quiet) == [None, None, None]
    assert details["root_why"].startswith("nothing worth fixing: rank 2 makes the others wait 2.")
    assert straggler_lag.run(quiet).details["stragglers"] == []
    assert straggler_lag.run(quiet).details["worst_straggler"] is None
    assert straggler_cause.run(quiet).details["main_why"] == details["root_why"]
    finer = quiet.with_options(overrides={"materiality_pct": 0.5})
    assert named(finer) == ["2", "compute", "high"]
    assert straggler_lag.run(finer).details["stragglers"] == [2]


def test_the_root_carries_its_share_of_the_waiting_and_of_the_time() -> None:
    details = blame_chain.run(four(1_000)).details

    assert details["root_share"] == 1.0
    # three of four ranks wait twice 1 ms in each of four steps: three of 20 ms and the last of 19
    assert details["root_share_of_time"] == pytest.approx(0.75 * 8 / 79)
    (row,) = details["roots"]
    assert row["share_of_time"] == details["root_share_of_time"]


def test_waiting_that_computation_hides_costs_nothing() -> None:
    found = four(1_000, hidden=True)

    assert straggler_lag.run(found).details["mean_lag_us"] == 1_000
    assert [int(one.wait_ns.sum()) for one in exposed_waits(found)] == [0]
    assert named(found) == [None, None, None]


def test_two_ranks_that_are_equally_late_are_not_one() -> None:
    lateness = (0.0, 0.0, 1_000.0, 1_000.0)
    found = View(job(*(worker(rank, late) for rank, late in enumerate(lateness))))

    assert named(found) == [None, None, None]
    why = blame_chain.run(found).details["root_why"]
    assert "100 % is due to several ranks that are equally late" in why


def test_two_steps_are_not_enough_to_be_sure() -> None:
    def of(steps: tuple[int, int]) -> str:
        found = four(1_000).with_options(steps=steps)
        return str(blame_chain.run(found).details["root_confidence"])

    assert [of((0, 3)), of((0, 1)), of((1, 1))] == ["high", "medium", "low"]


def test_a_recorded_rank_that_is_not_compared_makes_the_result_partial_and_unsure() -> None:
    ranks = [worker(rank, 1_000.0 if rank == 2 else 0.0) for rank in range(3)]
    out = rank_trace(3, gpu=[kernel("gemm", 0, 9_000)], groups=[world(4)], world_size=4, host="a")
    found = View(job(*ranks, out))

    for metric in (straggler_lag, straggler_cause, blame_chain):
        result = metric.run(found)
        assert result.status == "partial"
        assert [one.message for one in result.reasons] == ["rank 3 has no collective"]
        assert result.details["coverage"] == "3 of 4 ranks, 8 of 8 collectives"
    assert named(found) == ["2", "compute", "low"]


def test_a_rank_of_which_few_calls_are_matched_is_left_out() -> None:
    # all that rank 3 has in common with the others is one collective of its own group with rank 2
    ranks = [worker(rank, 0.0, size=3) for rank in range(3)]
    lone = worker(3, 0.0, size=3, groups=[ProcessGroup("0", "lost", (), 3)])
    found = View(job(*ranks, lone))

    assert straggler_lag.run(found).status == "partial"
    assert "3" in coverage_of(found).left_out


def test_few_collectives_make_the_result_partial() -> None:
    ranks = [
        worker(rank, 0.0, keep=range(COUNT - 3 if rank == 1 else 0, COUNT)) for rank in range(4)
    ]

    found = coverage_of(View(job(*ranks)))

    assert found.text == "4 of 4 ranks, 3 of 8 collectives"
    assert found.is_small
    assert straggler_lag.run(View(job(*ranks))).status == "partial"


def test_a_rank_without_a_file_is_the_root_where_all_others_wait() -> None:
    ranks = [worker(rank, 0.0, for_absent_us=3_000.0) for rank in (0, 1, 3)]
    found = View(job(*ranks))

    details = blame_chain.run(found).details
    assert named(found) == ["2", "not_recorded", "medium"]
    # four of eight collectives take 3 ms longer on three ranks
    assert details["root_why"] == "no trace of rank 2 was read; the others wait 36 ms for it"
    assert straggler_cause.run(found).details["main_rank"] == "2"


def test_longer_collectives_of_larger_messages_are_no_waiting() -> None:
    ranks = [worker(rank, 0.0, for_absent_us=3_000.0, sizes=(64, 4096)) for rank in (0, 1, 3)]

    assert named(View(job(*ranks))) == [None, None, None]


def test_waiting_for_the_root_of_a_broadcast_counts() -> None:
    found = View(job(*(with_broadcasts(rank) for rank in range(4))))

    assert straggler_lag.run(found).details["mean_lag_us"] == 0  # all reduce at the same time
    assert named(found) == ["0", "compute", "high"]
    lost = {one.what: one.total_ns for one in partition(found).losses if one.kind == "straggler"}
    assert lost == {"0": COUNT * 3 * 2_000_000}


def test_the_wait_at_broadcasts_is_stated_beside_the_waits_of_ranks() -> None:
    found = straggler_lag.run(View(job(*(with_broadcasts(rank) for rank in range(4)))))

    assert set(found.details["wait_us"].values()) == {0}
    assert found.details["one_sided_wait_us"] == COUNT * 3 * 2_000


def test_no_wait_at_broadcasts_where_nobody_waits_at_them() -> None:
    ranks = [worker(rank, 0.0, for_absent_us=3_000.0) for rank in (0, 1, 3)]
    found = straggler_lag.run(View(job(*ranks)))

    assert found.details["one_sided_wait_us"] == 0


def with_broadcasts(number: int) -> RankTrace:
    """Rank 0 computes 2 ms more before it joins a broadcast to the others; all reduce then."""
    gpu = []
    for place in range(COUNT):
        begin = PERIOD_US * place
        late = 2_000 if number == 0 else 0
        gpu.append(kernel("gemm", begin, 3_000 + late))
        gpu.append(
            kernel(
                "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                begin + 3_000 + late,
                2_500 - late,
                20,
                Coll("broadcast", 64, 64, group=0, group_size=4, seq=2 * place),
            )
        )
        reduce = Coll("allreduce", 64, 64, group=0, group_size=4, seq=2 * place + 1)
        gpu.append(allreduce(begin + 6_000, 500, reduce))
    return rank_trace(number, gpu=gpu, annotations=STEPS, groups=[world(4)], world_size=4, host="a")


def test_a_rank_is_named_with_certainty_where_any_steps_name_it() -> None:
    always = np.tile([8.0, 1.0, 1.0], (6, 1))
    in_turns = np.array([[9.0, 1.0, 0.0], [2.0, 8.0, 0.0]] * 3)  # 55 % of all waiting
    once = np.array([[90.0, 1.0, 0.0], *[[0.0, 1.0, 0.0]] * 9])  # 90 %, all of it in one of ten

    assert roots._agreement(always) == 1.0
    assert roots._agreement(in_turns) < roots.MEDIUM_AGREEMENT
    assert roots._agreement(once) == pytest.approx(1 - 0.9**10, abs=0.1)
