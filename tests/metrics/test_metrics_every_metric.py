"""What holds for every metric: ranks in any order, and a job twice as slow."""

from __future__ import annotations

import itertools

import pytest
from factories import (
    Coll,
    Event,
    allreduce,
    card,
    copy,
    job,
    kernel,
    launch,
    rank_trace,
    step,
    world,
)

from metrics.registry import Metric, metrics
from metrics.view import View
from parsers.columns import Device, ProcessGroup, RankTrace

STATED = {
    "phase": "training",
    "num_params": 10_000,
    "num_params_embedding": 100,
    "num_layers": 2,
    "num_heads": 2,
    "head_dim": 4,
    "batch_size": 4,
    "batch_size_scope": "global",
    "seq_len": 16,
    "precision": "bf16",
    "total_count": 3,
    "tp": 3,
}


def member(rank: int, scale: float = 1.0) -> RankTrace:
    """Three steps of unequal work, two collectives of three ranks each, a copy, late launches."""
    gpu, runtime, marks = [], [], []
    for i in range(3):
        at = 1000.0 * i
        work = 100 + 40 * rank + 10 * i
        sizes = [
            Coll("allreduce", 1000 * (i + 1), 1000 * (i + 1), "Float", 1, seq=2 * i + j)
            for j in (0, 1)
        ]
        gpu += [
            Event("ampere_sgemm", (at + 10) * scale, work * scale, 7, None, 10 * i + 1),
            allreduce((at + 20 + work) * scale, (380 - work) * scale, sizes[0]),
            copy((at + 420) * scale, 30 * scale),
            kernel("void elementwise_kernel<int>(int)", (at + 470) * scale, 20 * scale),
            allreduce((at + 500 + 25 * rank) * scale, (100 - 25 * rank) * scale, sizes[1]),
        ]
        runtime.append(launch(10 * i + 1, (at + 5) * scale, scale))
        marks.append(step(i, at * scale, 900 * scale))
    return rank_trace(
        rank,
        gpu=gpu,
        runtime=runtime,
        annotations=marks,
        groups=[world(3), ProcessGroup("1", "mesh_tp", (0, 1, 2), 3)],
        world_size=3,
        devices=[Device(0, "NVIDIA A100-SXM4-40GB")],
    )


def view(*ranks: RankTrace) -> View:
    return View(job(*ranks, card=card(**STATED)))


EVERY = pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)


@EVERY
def test_ranks_in_any_order(metric: Metric) -> None:
    ranks = [member(rank) for rank in range(3)]
    found = {metric.run(view(*order)).value for order in itertools.permutations(ranks)}

    assert len(found) == 1


@EVERY
def test_a_job_twice_as_slow_has_the_same_shares(metric: Metric) -> None:
    """Shares stay; times double, rates halve. MFU is a rate in disguise."""
    one = metric.run(view(*(member(rank) for rank in range(3))))
    slow = metric.run(view(*(member(rank, 2.0) for rank in range(3))))

    assert one.status == slow.status
    if one.value is None or slow.value is None:
        assert one.reason == slow.reason
    elif metric.unit in ("ms", "us"):
        assert slow.value == pytest.approx(2 * one.value, abs=1e-6)
    elif metric.unit in ("GB/s", "tokens/s", "TFLOPS") or metric.name in ("mfu", "link_utilization"):
        assert slow.value == pytest.approx(one.value / 2)
    else:
        assert slow.value == pytest.approx(one.value)


def test_the_job_answers_most_metrics() -> None:
    answered = [m.name for m in metrics().values() if m.run(view(*map(member, range(3)))).value]

    assert len(answered) > 20
