"""What is known of a job, read back from its traces."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest
import yaml
from recovery import FAMILY, LOSSY, Recovered, nanoseconds, quick, recover

from ccltui.demo import Spec, write_job
from ccltui.parsers.side.workload_card import read_card

every_job = pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
whole_jobs = pytest.mark.parametrize("recovered", sorted(set(FAMILY) - LOSSY), indirect=True)


@every_job
def test_calls(recovered: Recovered) -> None:
    truth = recovered.truth

    result = recovered.metric("coll_call_num")

    found = result.details
    assert found["calls_per_rank"] == {str(rank.rank): rank.calls for rank in truth.ranks}
    assert +Counter(found["calls_by_type"]) == truth.calls_by_type
    assert found["total_calls"] == sum(rank.calls for rank in truth.ranks)
    for rank in truth.ranks:
        per_step = dict(found["calls_per_step"][str(rank.rank)])
        outside = per_step.pop("outside", 0)
        assert per_step == {str(step): calls for step, calls in rank.calls_by_step.items()}
        assert outside == rank.calls - sum(rank.calls_by_step.values())


@whole_jobs
def test_members_of_a_group_call_alike(recovered: Recovered) -> None:
    found = recovered.metric("coll_call_num").details

    assert found["rank_mismatch"] == []
    assert found["num_without_metadata"] == 0
    assert found["api_calls"] == found["total_calls"]


@every_job
def test_steps(recovered: Recovered) -> None:
    truth = recovered.truth

    found = recovered.metric("iter_time").details

    assert [nanoseconds(ms) for ms in found["iter_times_ms"]] == list(truth.step_ns.values())
    assert found["num_iterations"] == len(truth.step_ns)
    for rank in truth.ranks:
        assert found["per_rank"][str(rank.rank)]["n"] == len(rank.step_ns)


@every_job
def test_overlap(recovered: Recovered) -> None:
    found = recovered.metric("comm_comp_overlap").details["per_rank"]

    for rank in recovered.truth.ranks:
        measured = found[str(rank.rank)]
        assert {
            key: nanoseconds(measured[f"{key}_ms"])
            for key in ("comm_time", "comp_time", "overlap_time", "exposed_comm", "idle")
        } == {
            "comm_time": rank.comm_ns,
            "comp_time": rank.comp_ns,
            "overlap_time": rank.overlap_ns,
            "exposed_comm": rank.exposed_comm_ns,
            "idle": rank.idle_ns,
        }
        assert measured["num_comm_kernels"] == rank.calls


@whole_jobs
def test_sums_of_concurrent_work(recovered: Recovered) -> None:
    found = recovered.metric("comm_comp_overlap").details["per_rank"]

    for rank in recovered.truth.ranks:
        measured = found[str(rank.rank)]
        assert nanoseconds(measured["comm_sum_ms"]) == rank.comm_sum_ns
        assert nanoseconds(measured["comp_sum_ms"]) == rank.comp_sum_ns
        assert nanoseconds(measured["mem_time_ms"]) == rank.mem_ns


WHOLE = sorted(set(FAMILY) - LOSSY)
EVERY = sorted(FAMILY)
DIMS = {"dp_replicate": "dp", "dp_shard": "dp"}


def world_is(recovered: Recovered) -> str:
    """Where one dimension alone splits the job, the world is its group."""
    spec = recovered.spec
    degrees = {"tp": spec.tp, "pp": spec.pp, "dp": spec.dp_replicate * spec.dp_shard}
    large = [name for name, degree in degrees.items() if degree > 1]
    return large[0] if len(large) == 1 else "world"


def by_dimension(recovered: Recovered, injected: dict[str, int]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for dimension, count in injected.items():
        name = world_is(recovered) if dimension == "world" else DIMS.get(dimension, dimension)
        sums[name] += count
    return sums


@pytest.mark.parametrize("recovered", EVERY, indirect=True)
def test_message_bytes(recovered: Recovered) -> None:
    truth = recovered.truth
    wanted = by_dimension(recovered, dict(truth.message_bytes))

    found = recovered.metric("traffic_distribution").details

    dims = ("dp", "tp", "pp", "ep", "cp", "world", "unknown")
    # An orphan may be of any dimension: those without traffic of their own are then not zero.
    orphans = any(late.orphans for late in recovered.spec.late_starts)
    none = None if orphans else 0
    assert {dim: found[f"{dim}_bytes"] for dim in dims} == {
        dim: wanted[dim] or none for dim in dims
    }
    assert found["total_bytes"] == wanted.total()
    assert found["fractions"]["tp"] == pytest.approx(wanted["tp"] / wanted.total())


@pytest.mark.parametrize("recovered", EVERY, indirect=True)
def test_wire_bytes(recovered: Recovered) -> None:
    wanted = by_dimension(recovered, dict(recovered.truth.wire_bytes))

    found = recovered.metric("traffic_distribution").details["by_dim"]

    assert {dim: row["wire_bytes"] for dim, row in found.items() if dim != "unknown"} == wanted


@pytest.mark.parametrize("recovered", WHOLE, indirect=True)
def test_all_traffic_has_a_size(recovered: Recovered) -> None:
    found = recovered.metric("traffic_distribution")

    assert found.status == "ok"
    assert found.details["bytes_coverage"] == 1
    assert found.details["total_comm_calls"] == sum(rank.calls for rank in recovered.truth.ranks)


def test_both_kinds_of_data_parallelism_are_distinguished(tmp_path: Path) -> None:
    found = recover(tmp_path, quick(tp=1, pp=1, dp_replicate=2, dp_shard=2))

    parts = found.metric("traffic_distribution").details["by_dim"]["dp"]["parts"]

    injected = found.truth.message_bytes
    assert parts["dp_replicate"]["message_bytes"] == injected["dp_replicate"]
    assert parts["dp_shard"]["message_bytes"] == injected["dp_shard"]


def test_names_alone_give_no_bytes(tmp_path: Path) -> None:
    found = recover(tmp_path, quick(metadata="names_only"))

    result = found.metric("traffic_distribution")

    assert result.status == "partial"
    assert result.reason == "no_message_size"
    assert result.details["total_bytes"] is None


@pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
def test_tokens_a_second(recovered: Recovered) -> None:
    truth = recovered.truth
    steps_ns = list(truth.step_ns.values())

    found = recovered.metric("throughput_tokens").details

    assert found["tokens_per_step"] == truth.tokens_per_step
    assert found["batch_size"] == truth.spec.global_batch
    assert found["total_tokens"] == truth.tokens_per_step * len(steps_ns)
    assert found["measured_duration_s"] == pytest.approx(sum(steps_ns) / 1e9, rel=1e-12)
    expected = truth.tokens_per_step / (statistics.median(steps_ns) / 1e9)
    assert found["throughput_tokens_per_s"] == pytest.approx(expected, rel=1e-12)
    assert found["tokens_per_s_per_gpu"] == pytest.approx(expected / truth.spec.world_size)
    replicas = truth.spec.dp_replicate * truth.spec.dp_shard
    assert found["tokens_per_s_per_dp_rank"] == pytest.approx(expected / replicas)


@pytest.mark.parametrize("recovered", WHOLE, indirect=True)
def test_the_card_does_not_contradict_the_traces(recovered: Recovered) -> None:
    found = recovered.metric("throughput_tokens").warnings

    assert [one for one in found if "run ahead of their devices" not in one] == []


def test_the_card_of_the_demo(tmp_path: Path) -> None:
    write_job(tmp_path, Spec(steps=1))

    card = read_card(tmp_path / "workload_card.yaml")

    assert card.unknown_keys == ()
    assert card.notes == ()
    assert card.phase == "training"
    assert card.framework == "torchtitan"
    assert (card.batch_size, card.batch_size_scope, card.seq_len) == (8, "global", 2048)
    assert (card.tp, card.pp, card.dp_replicate, card.dp_shard, card.ep) == (2, 2, 1, 2, 1)
    assert (card.total_count, card.count_per_node) == (8, 4)
    assert card.pp_microbatches == 4


def test_the_card_follows_the_spec(tmp_path: Path) -> None:
    spec = Spec.quiet(
        tp=1, pp=1, dp_replicate=2, dp_shard=4, experts=True, library="rccl", steps=1, layers=1
    )
    write_job(tmp_path, spec)

    card = yaml.safe_load((tmp_path / "workload_card.yaml").read_text())

    executor = card["Model-executor"]
    assert executor["model_plan_parallelization"]["ep"] == 4
    assert executor["communication_library"] == {"name": "RCCL", "version": "2.22.3"}
    assert card["workload"]["model"]["moe"] is True
    assert card["workload"]["hardware"]["xpu_spec"]["model"] == "amd_mi300x"
    assert card["workload"]["data"]["batch_size"] == 4 * 8
