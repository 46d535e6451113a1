"""Step times without stragglers of jobs whose results are known by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, step, world

from ccltui.metrics.catalog.stragglers.what_if_no_straggler import what_if_no_straggler
from ccltui.metrics.findings.replay.savings import (
    per_step_rows,
    saved_time,
    why_not_physical,
)
from ccltui.metrics.findings.replay.savings import (
    refused as refused_texts,
)
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace


def steps(count: int) -> list[Event]:
    return [step(number, 1000.0 * number, 900) for number in range(count)]


def rank(number: int, work_us: Sequence[float], longest: Sequence[float]) -> RankTrace:
    """One kernel a step, from its beginning, then an all-reduce that ends 20 µs after the last.

    Of the two ranks each step's longer kernel decides: the step begins 1000 µs apart.
    """
    gpu = []
    for nth, mine in enumerate(work_us):
        begin = 1000.0 * nth
        end = begin + max(longest[nth], mine) + 20
        gpu.append(kernel("gemm", begin, mine))
        gpu.append(allreduce(begin + mine, end - begin - mine, Coll("allreduce", 8, 8, seq=nth)))
    return rank_trace(
        number,
        gpu=gpu,
        annotations=steps(len(work_us)),
        groups=[world(2)],
        world_size=2,
        host="a",
    )


LONGEST = (100, 400, 100, 300)


def two() -> View:
    early = rank(0, (100, 100, 100, 100), longest=LONGEST)
    return View(job(early, rank(1, LONGEST, longest=LONGEST)))


def test_the_metric() -> None:
    result = what_if_no_straggler.run(two())

    assert (result.status, result.unit) == ("ok", "ratio")
    # the first step is 120 us, and rank 1 costs 300 us of the second and 200 us of the fourth
    assert result.value == pytest.approx(3320 / 2820)
    details = result.details
    assert details["step_time_ms"] == pytest.approx(3.32 / 4)
    assert details["ideal_step_time_ms"] == pytest.approx(2.82 / 4)
    assert details["saved_pct"] == pytest.approx(100 * 500 / 3320)
    assert details["num_steps"] == 4
    assert [row["step"] for row in details["per_step"]] == [0, 1, 2, 3]
    assert details["without_rank"]["1"]["saved_ms"] == pytest.approx(0.5 / 4)
    assert "0" not in details["without_rank"]
    assert details["replay_error_us"] == 0.0
    assert details["alone"] == []


POSTED_US = ((100, 200, 240), (100, 140, 240), (40, 140, 240))
"""When each of three ranks posts what its computing hides: 100 us after the last, once 40."""


def prefetching(posted_us: Sequence[Sequence[float]], late_us: float = 0) -> View:
    """Every rank computes 300 us a step without a break, and posts calls that end at once on all.

    The all-reduce at the end of a step is waited for, 20 us behind the computing: of that the last
    rank has ``late_us`` more in step 1.
    """
    size, last = len(posted_us), [max(posts) for posts in zip(*posted_us, strict=True)]
    groups = [world(size), ProcessGroup("1", "mesh_fsdp", tuple(range(size)), size, "cuda:nccl")]
    ranks = []
    for number, posts in enumerate(posted_us):
        gpu = []
        for nth in range(3):
            begin, later = 1000.0 * nth, late_us if nth == 1 else 0
            mine = 300 + (later if number == size - 1 else 0)
            gpu += [
                kernel("gemm", begin + start, end - start)
                for start, end in pairwise((0, *posts, mine))
            ]
            for k, (at, until) in enumerate(zip(posts, last, strict=True)):
                coll = Coll("allreduce", 8, 8, group=1, seq=3 * nth + k)
                gpu.append(allreduce(begin + at, until + 5 - at, coll, stream=21 + k))
            coll = Coll("allreduce", 8, 8, seq=nth)
            gpu.append(allreduce(begin + mine, 300 + later + 20 - mine, coll))
        ranks.append(
            rank_trace(
                number,
                gpu=gpu,
                annotations=steps(3),
                groups=groups,
                world_size=size,
                host="a",
            )
        )
    return View(job(*ranks))


def test_a_job_whose_posts_say_nothing_is_replayed_by_its_passes() -> None:
    # the middle of each of three stretches is 100 us, but no rank has more than 240 us of them;
    # all compute the same 300 us a step
    result = what_if_no_straggler.run(prefetching(POSTED_US))

    assert result.status == "ok"
    assert result.value == pytest.approx(1.0, abs=1e-3)


def test_a_step_that_is_longer_without_stragglers_is_refused_with_the_figures() -> None:
    text = why_not_physical(np.array([1e6, 1e6]), np.array([1.06e6, 1.06e6]))

    assert "takes 1.06 ms, 60 us (6.0 %) longer than as it was, 1 ms" in text


def test_a_rank_that_is_late_once_costs_that_even_where_posts_say_nothing() -> None:
    # rank 3 is 50 us late once, in one of three steps
    result = what_if_no_straggler.run(prefetching((*POSTED_US, POSTED_US[0]), late_us=50))

    assert result.status == "ok"
    assert result.details["saved_ms"] == pytest.approx(0.05 / 3, rel=0.01)
    assert result.details["without_rank"]["3"]["saved_ms"] == pytest.approx(0.05 / 3, rel=0.01)


def test_a_rank_that_would_make_the_step_longer_has_no_value() -> None:
    row = saved_time(np.array([1e6]), np.array([1.06e6]))

    assert row == {
        "step_time_ms": 1.0,
        "ideal_step_time_ms": None,
        "saved_ms": None,
        "saved_pct": None,
    }
    texts = refused_texts({"0": row, "3": row}, [])
    assert [
        "a replay with ranks 0 and 3 as fast as the others takes longer" in text for text in texts
    ] == [True]


def test_a_step_that_is_longer_has_no_ideal_and_rounding_is_no_difference() -> None:
    was, ideal = np.array([1e6, 1e6, 1e6]), np.array([9e5, 1e6 + 0.9, 1e6 + 1.1])

    rows = per_step_rows([1, 2, 3], was, ideal)

    assert [row["slowdown"] for row in rows] == [pytest.approx(1 / 0.9), 1.0, None]
    assert [row["ideal_ms"] for row in rows] == [0.9, 1.0, None]
    assert saved_time(was[1:2], ideal[1:2])["saved_ms"] == 0
    assert saved_time(was[2:], ideal[2:])["saved_ms"] is None


def refused(*ranks: RankTrace) -> Result:
    result = what_if_no_straggler.run(View(job(*ranks)))
    assert (result.status, result.value) == ("unavailable", None)
    return result


def test_a_single_rank_cannot_be_compared() -> None:
    assert refused(rank(0, LONGEST, longest=LONGEST)).reason == "single_rank"


def test_without_steps() -> None:
    bare = [
        rank_trace(
            n,
            gpu=[kernel("gemm", 0, 10), allreduce(10, 10, Coll("allreduce", 8, 8, seq=1))],
            groups=[world(2)],
            world_size=2,
            host="a",
        )
        for n in (0, 1)
    ]

    assert refused(*bare).reason == "no_step_markers"


def test_ranks_that_run_different_programs() -> None:
    other = rank_trace(
        1,
        gpu=[
            kernel("gemm", 0, 90),
            allreduce(100, 20, Coll("allreduce", 8, 8, seq=0)),
            Event("ncclDevKernel_AllGather_RING_LL", 130, 10, 20, Coll("_allgather_base", 8, 16)),
        ],
        annotations=steps(1),
        groups=[world(2)],
        world_size=2,
        host="a",
    )

    assert refused(rank(0, (100,), longest=(100,)), other).reason == "not_applicable"
