"""Synthetic inference servers: what is planted is what is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving_job import ServingJob, write_serving_job

import ccltui
from ccltui.api import Job


def opened(folder: Path, spec: ServingJob, capture: str | None = None) -> Job:
    write_serving_job(folder / "traces", spec)
    return ccltui.open(folder / "traces", capture=capture, cache_dir=folder / "cache")


@pytest.mark.parametrize("names", ["vllm", "sglang"])
@pytest.mark.parametrize("states_ranks", [True, False])
def test_replicas_open_as_one_job_whatever_names_and_files_state(
    tmp_path: Path, names: str, states_ranks: bool
) -> None:
    spec = ServingJob(replicas=3, decodes=5, names=names, states_ranks=states_ranks)  # type: ignore[arg-type]

    job = opened(tmp_path, spec)

    assert job.metric("coll_call_num").status == "ok"
    assert job.metric("straggler_lag").details["num_ranks"] == 6


@pytest.mark.parametrize("spec", [
    ServingJob(),
    ServingJob(replays_graphs=False),
    ServingJob(prefills=0),
    ServingJob(prefills=5, decodes=4, layers=9),
    ServingJob(replicas=1, ranks=4, decodes=40, layers=2),
])  # fmt: skip
def test_the_step_is_the_period_of_the_decode_loop(tmp_path: Path, spec: ServingJob) -> None:
    job = opened(tmp_path, spec)

    steps = job.metric("iter_time")
    assert steps.basis["step_marker"] == "decode loop"
    assert steps.details["num_iterations"] == spec.decodes
    graph_ns = 0 if spec.replays_graphs else -5_000  # a kernel starts sooner after its own launch
    assert steps.details["p50_iter_time_ms"] == pytest.approx((spec.decode_ns + graph_ns) / 1e6)


def test_prefill_and_decode_are_told_apart_without_markers(tmp_path: Path) -> None:
    spec = ServingJob(prefills=4, decodes=10)

    found = opened(tmp_path, spec).metric("trace_proxy_latency").details

    assert found["prefill_ms"]["n"] == 4 * 4
    assert found["decode_iter_ms"]["n"] == 10 * 4
    assert found["mixed_iter_ms"]["n"] == 0
    assert [one["decode_period_ms"] for one in found["replicas"]] == [spec.decode_ns / 1e6] * 2


def test_marked_passes_keep_their_marks(tmp_path: Path) -> None:
    spec = ServingJob(marks=True, prefills=3, decodes=9)

    job = opened(tmp_path, spec)

    assert job.metric("iter_time").basis["step_marker"] == "execute_context"
    assert job.metric("trace_proxy_latency").details["decode_iter_ms"]["n"] == 9 * 4
    kinds = [one["class"] for one in job.metric("findings").details["findings"]]
    assert "slow_steps" not in kinds  # prefill is no slow decode


def test_captures_of_prefill_and_of_decode(tmp_path: Path) -> None:
    for stage in ("EXTEND", "DECODE"):
        write_serving_job(tmp_path / "traces", ServingJob(names="sglang", stage=stage, prefills=4))

    times = {}
    for stage in ("EXTEND", "DECODE"):
        job = ccltui.open(tmp_path / "traces", capture=stage, cache_dir=tmp_path / "cache")
        times[stage] = job.metric("trace_proxy_latency").details

    assert times["EXTEND"]["prefill_ms"]["n"] == 4 * 4
    assert times["EXTEND"]["decode_iter_ms"]["n"] == 0
    assert times["DECODE"]["decode_iter_ms"]["n"] == 12 * 4
    assert times["DECODE"]["prefill_ms"]["n"] == 0


@pytest.mark.parametrize("slow", [(0, 1), (1, 0), (1, 1)])
def test_a_straggler_is_named_by_rank_and_replica(tmp_path: Path, slow: tuple[int, int]) -> None:
    found = opened(tmp_path, ServingJob(slow_rank=slow)).metric("findings").details

    first = found["findings"][0]
    replica, rank = slow
    label = str(2 * replica + rank)
    assert first["where"]["ranks"] == [label]
    assert first["text"].startswith(f"Replica dp{replica} waits for rank {label}: ")
    assert f"Rank {label} is rank {rank} of replica dp{replica}." in first["more"]
    assert first["saves_ms"] == pytest.approx(0.080, rel=0.05)  # 40 us three times as long


def test_a_slow_replica_is_named_and_no_rank(tmp_path: Path) -> None:
    spec = ServingJob(replicas=3, slow_replica=2)

    first = opened(tmp_path, spec).metric("findings").details["findings"][0]

    assert first["class"] == "slow_replica"
    assert (first["where"]["ranks"], first["where"]["group"]) == (["4", "5"], "dp2")
    assert first["text"].startswith("Replica dp2 takes 1.94 ms for a pass of decode, ")


def test_even_replicas_are_no_finding(tmp_path: Path) -> None:
    found = opened(tmp_path, ServingJob()).metric("findings").details["findings"]

    assert {one["class"] for one in found}.isdisjoint({"slow_replica", "slow_layer"})
    assert all(not one["where"]["ranks"] for one in found)


def test_few_passes_show_no_period(tmp_path: Path) -> None:
    job = opened(tmp_path, ServingJob(prefills=0, decodes=2))

    assert job.metric("iter_time").status == "unavailable"
