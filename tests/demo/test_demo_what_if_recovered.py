"""Step times without the straggler: the replay against the simulator's own result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from recovery import FAMILY, LOSSY, Recovered, quick, recover

from ccltui.demo import Spec, Straggler
from ccltui.demo.simulate import simulate

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
