"""pipeline_bubble measures the waiting of every stage, exact to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest
from recovery import FAMILY, Recovered, nanoseconds, quick, recover

PIPELINES = sorted(name for name, spec in FAMILY.items() if spec.pp > 1)
OTHERS = sorted(name for name, spec in FAMILY.items() if spec.pp == 1)


@pytest.mark.parametrize("recovered", PIPELINES, indirect=True)
def test_every_stage(recovered: Recovered) -> None:
    truth = recovered.truth

    stages = recovered.metric("pipeline_bubble").details["stages"]

    assert [stage["stage"] for stage in stages] == list(range(truth.spec.pp))
    for stage in stages:
        members = [rank for rank in truth.ranks if rank.stage == stage["stage"]]
        assert stage["ranks"] == [str(rank.rank) for rank in members]
        parts = [rank.bubble for rank in members]
        assert nanoseconds(stage["idle_ms"]) == sum(part.idle_ns for part in parts)
        assert nanoseconds(stage["exposed_p2p_ms"]) == sum(part.exposed_p2p_ns for part in parts)
        assert nanoseconds(stage["transfer_ms"]) == sum(part.transfer_ns for part in parts)
        assert nanoseconds(stage["bubble_ms"]) == sum(part.bubble_ns for part in parts)


@pytest.mark.parametrize("recovered", PIPELINES, indirect=True)
def test_the_whole_job(recovered: Recovered) -> None:
    truth = recovered.truth

    found = recovered.metric("pipeline_bubble").details

    assert found["method"] == "p2p"
    assert found["bubble_ratio"] == pytest.approx(truth.bubble_ratio, rel=1e-9)
    assert found["theoretical_ratio"] == pytest.approx(truth.theoretical_bubble)
    assert found["microbatches"] == truth.spec.micro_batches
    bubble_ns = sum(rank.bubble.bubble_ns for rank in truth.ranks)
    assert nanoseconds(found["bubble_time_ms"]) == bubble_ns


@pytest.mark.parametrize("recovered", OTHERS, indirect=True)
def test_without_stages_there_is_no_bubble(recovered: Recovered) -> None:
    found = recovered.metric("pipeline_bubble")

    assert found.status == "unavailable"
    assert found.reason == "not_applicable"


@pytest.mark.parametrize("micro_batches", [4, 8, 16])
def test_a_pipeline_that_does_nothing_else_comes_near_the_theory(
    tmp_path: Path, micro_batches: int
) -> None:
    spec = quick(
        tp=1,
        pp=4,
        dp_shard=1,
        layers=4,
        steps=8,
        micro_batches=micro_batches,
        gemm_ns=1_500_000,
        grad_norm_ns=1_000,
        optimizer_ns=1_000,
        network_bytes_per_ns=10_000,
        node_bytes_per_ns=10_000,
        world_allreduce=False,
    )

    found = recover(tmp_path, spec).metric("pipeline_bubble").details

    assert found["bubble_ratio"] == pytest.approx(3 / (micro_batches + 3), rel=0.06)
    assert found["theoretical_ratio"] == 3 / (micro_batches + 3)
