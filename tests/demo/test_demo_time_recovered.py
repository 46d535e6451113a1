"""Times of known jobs: idle, busy, bubbles of pipelines, and what would be saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from recovery import FAMILY, LOSSY, Recovered, nanoseconds, quick, recover

from ccltui.demo import Spec, Straggler
from ccltui.demo.simulate import simulate

every_job = pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
PARTS = ("window", "idle", "comp_only", "comm_only", "overlap", "mem_only")
SIZED = sorted(set(FAMILY) - LOSSY)


@every_job
def test_parts_of_the_time(recovered: Recovered) -> None:
    found = recovered.metric("temporal_breakdown").details["per_rank"]

    for rank in recovered.truth.ranks:
        measured = {key: nanoseconds(found[str(rank.rank)][f"{key}_ms"]) for key in PARTS}
        assert measured == {
            "window": rank.window_ns,
            "idle": rank.idle_ns,
            "comp_only": rank.comp_only_ns,
            "comm_only": rank.comm_only_ns,
            "overlap": rank.overlap_ns,
            "mem_only": rank.mem_only_ns,
        }


@every_job
def test_idle_and_busy_shares(recovered: Recovered) -> None:
    ranks = recovered.truth.ranks
    window, idle = sum(r.window_ns for r in ranks), sum(r.idle_ns for r in ranks)

    assert recovered.metric("idle_ratio").value == pytest.approx(idle / window, abs=1e-12)
    assert recovered.metric("gpu_busy").value == pytest.approx(1 - idle / window, abs=1e-12)
    assert recovered.metric("sm").value == pytest.approx(1 - idle / window, abs=1e-12)


@every_job
def test_work_of_ranks(recovered: Recovered) -> None:
    result = recovered.metric("rank_imbalance")
    if result.status == "unavailable":
        assert len(recovered.truth.ranks) < 2
        return
    work = [rank.comp_ns for rank in recovered.truth.ranks]

    assert result.value == pytest.approx(max(work) * len(work) / sum(work))


@every_job
def test_idle_time_is_all_divided(recovered: Recovered) -> None:
    details = recovered.metric("idle_causes").details

    parts = sum(row["ms"] for row in details["by_cause"].values())
    assert parts * len(recovered.truth.ranks) == pytest.approx(
        sum(rank.idle_ns for rank in recovered.truth.ranks) / 1e6
    )


@pytest.mark.parametrize("recovered", SIZED, indirect=True)
def test_every_collective_counts_once(recovered: Recovered) -> None:
    result = recovered.metric("collective_volume")
    truth = recovered.truth
    if not all(call.message_bytes >= 0 for call in truth.collectives) or result.value is None:
        assert result.reason == "no_message_size"
        return

    details = result.details
    if not details["num_unmatched"]:
        assert details["num_collectives"] == len(truth.collectives) + len(truth.transfers)
        expected = sum(c.message_bytes for c in (*truth.collectives, *truth.transfers))
        assert details["total_message_bytes"] == expected


@pytest.mark.parametrize(
    "recovered",
    ["nothing injected", "no overlap", "second host ahead", "tensor parallel alone", "gpipe"],
    indirect=True,
)
def test_the_chain_of_work_is_as_long_as_the_step(recovered: Recovered) -> None:
    """From the first work of any rank to the last end of any, without a gap."""
    truth = recovered.truth
    details = recovered.metric("critical_path").details
    offsets = truth.clock_offset_ns

    for index, step in enumerate(sorted(int(step) for step in details["per_step"])):
        windows = [
            (start - offsets[rank.rank], end - offsets[rank.rank])
            for rank in truth.ranks
            for start, end in [rank.work[index]]
        ]
        length = max(end for _, end in windows) - min(start for start, _ in windows)
        found = nanoseconds(details["per_step"][str(step)]["path_ms"])
        assert abs(found - length) <= 5_000  # what clocks and ends leave open


def test_the_chain_runs_through_the_late_rank_and_its_pipeline(tmp_path: Path) -> None:
    calm = recover(tmp_path / "calm", FAMILY["nothing injected"])
    slow = recover(tmp_path / "slow", FAMILY["slow products"])

    assert set(calm.metric("critical_path").details["by_rank"]) == {"0", "4"}
    assert set(slow.metric("critical_path").details["by_rank"]) == {"3", "7"}


@pytest.mark.parametrize("recovered", ["waiting for data", "silent host"], indirect=True)
def test_a_host_that_holds_a_step_up_is_on_the_chain(recovered: Recovered) -> None:
    (injected,) = recovered.spec.stragglers
    details = recovered.metric("critical_path").details
    steps = injected.steps or ()

    for index, row in enumerate(details["per_step"].values()):
        held = 4.0 if index in steps else 0.0
        assert row["host_ms"] == pytest.approx(held, abs=0.05)
    assert details["by_rank"]["3"]["ratio_of_path"] > 0.2


@every_job
def test_hosts_that_run_ahead_are_the_free_running_ones(recovered: Recovered) -> None:
    ahead = [one for one in recovered.metric("iter_time").warnings if "run ahead" in one]

    assert bool(ahead) == (recovered.truth.spec == FAMILY["free running host"])


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


SHAPES: dict[str, dict[str, Any]] = {
    "tensor parallel": {"tp": 4, "pp": 1, "dp_shard": 1},
    "three dimensions": {},
    "hybrid sharding": {"tp": 2, "pp": 1, "dp_shard": 2, "dp_replicate": 2},
    "experts": {"experts": True},
    "pipeline and data": {"tp": 1, "pp": 2, "dp_shard": 2, "micro_batches": 4},
}


def step_ms(spec: Spec) -> float:
    """Mean time of a step, from the last end of the one before, the first from its first work."""
    schedule = simulate(spec)
    ends = [
        max(a.end_ns for rank in schedule.activities for a in rank if a.step == step)
        for step in range(spec.steps)
    ]
    begin = min(a.start_ns for rank in schedule.activities for a in rank if a.step == 0)
    return float(np.diff(ends, prepend=begin).mean()) / 1e6


def injected(shape: str, cause: Any, **changes: Any) -> Spec:
    late = Straggler(1, cause, extra_ns=900_000)
    more = {"clock_offsets_ns": (5_000_000,), **SHAPES[shape], **changes}
    spec: Spec = quick(stragglers=(late,), **more)
    return spec


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cause", ["compute", "data_loading", "copies"])
def test_as_the_simulator_has_it_without_the_straggler(
    tmp_path: Path, shape: str, cause: str
) -> None:
    spec = injected(shape, cause)

    found = recover(tmp_path, spec).metric("what_if_no_straggler")

    calm = step_ms(replace(spec, stragglers=()))
    details = found.details
    assert found.status == "ok"
    assert details["step_time_ms"] == pytest.approx(step_ms(spec), rel=1e-6)
    assert details["ideal_step_time_ms"] == pytest.approx(calm, rel=1e-6)
    assert details["without_rank"]["1"]["ideal_step_time_ms"] == pytest.approx(calm, rel=1e-6)
    assert found.value == pytest.approx(step_ms(spec) / calm, rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_jitter_is_no_straggler_and_moves_the_answer_little(tmp_path: Path, shape: str) -> None:
    spec = injected(shape, "kernel", jitter_ns=1_009, sync_each_step=False)

    details = recover(tmp_path, spec).metric("what_if_no_straggler").details

    calm = step_ms(replace(spec, stragglers=()))
    assert details["without_rank"]["1"]["ideal_step_time_ms"] == pytest.approx(calm, rel=0.002)
    assert details["ideal_step_time_ms"] == pytest.approx(calm, rel=0.005)


def test_other_ranks_are_worth_nothing(tmp_path: Path) -> None:
    found = recover(tmp_path, injected("three dimensions", "compute"))

    rows = found.metric("what_if_no_straggler").details["without_rank"]
    worth = {rank: row["saved_ms"] for rank, row in rows.items() if row["saved_ms"] is not None}
    assert max(worth, key=lambda rank: worth[rank]) == "1"
    assert all(abs(ms) < 0.01 for rank, ms in worth.items() if rank != "1")


def test_a_stall_that_free_running_hosts_absorb_is_worth_nothing(tmp_path: Path) -> None:
    spec = injected("tensor parallel", "data_loading", sync_each_step=False)

    found = recover(tmp_path, spec).metric("what_if_no_straggler")

    # only in the first step the device has nothing else to do
    assert found.value == pytest.approx(step_ms(spec) / step_ms(replace(spec, stragglers=())))
    assert [row["slowdown"] for row in found.details["per_step"][1:]] == [1.0, 1.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_quiet_job_has_nothing_to_save(tmp_path: Path, shape: str) -> None:
    found = recover(tmp_path, quick(**SHAPES[shape])).metric("what_if_no_straggler")

    assert found.value == pytest.approx(1.0, abs=1e-6)


ALONE = ("pipeline of four", "gpipe")
"""Jobs of one rank a stage: nobody to compare with."""


@pytest.mark.parametrize("recovered", sorted(set(FAMILY) - LOSSY - set(ALONE)), indirect=True)
def test_unchanged_the_replay_ends_steps_when_they_ended(recovered: Recovered) -> None:
    found = recovered.metric("what_if_no_straggler")

    assert found.status == "ok", found.reasons
    # a collective takes as long as on its shortest member: ends that differ move the last one
    skew_ns = recovered.truth.spec.end_skew_ns
    assert found.details["replay_error_us"] <= 0.01 + 4 * skew_ns / 1000


def test_one_step_alone_counts_from_the_first_work(tmp_path: Path) -> None:
    found = recover(tmp_path, injected("tensor parallel", "compute", steps=1))

    details = found.metric("what_if_no_straggler").details
    assert details["num_steps"] == 1
    assert details["saved_ms"] == pytest.approx(0.9)


@pytest.mark.parametrize("recovered", ALONE, indirect=True)
def test_stages_of_one_rank_have_no_peers(recovered: Recovered) -> None:
    found = recovered.metric("what_if_no_straggler")

    # Within one program nothing is told; over all passes, which other stages share, it is.
    assert (found.status, found.reason, found.value) == ("partial", "not_applicable", None)
    assert found.details["equalised_slowdown"] is not None
