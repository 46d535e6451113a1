"""Drafts of a card: facts with their source, and no unstated fact."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import Event, job, kernel, rank_trace, step
from msgspec.structs import replace

from ccltui.metrics.card.check_and_draft import CONFIG_KEYS, Fact, draft
from ccltui.parsers.columns import Device, ProcessGroup, RankTrace
from ccltui.parsers.job import open_job
from ccltui.parsers.runs.run_records import TrainConfig


def gpu_rank(rank: int, *, host: str) -> RankTrace:
    pair = (0, 1) if rank < 2 else (2, 3)
    trace = rank_trace(
        rank,
        world_size=4,
        gpu=[kernel("gemm", 0, 10)],
        annotations=[step(1, 0, 10), Event("Optimizer.step#AdamW.step", 5, 2, 1)],
        devices=[Device(0, "NVIDIA A100-SXM4-40GB")],
        nccl_version="2.21.5",
        groups=[ProcessGroup("1", "mesh_tp", pair, 2)],
    )
    return replace(trace, host=host, backend="nccl")


def test_a_job_on_two_hosts() -> None:
    ranks = [gpu_rank(rank, host=f"node{rank // 2}") for rank in range(4)]

    assert draft(job(*ranks), None) == {
        "phase": Fact("training", "traces, Optimizer.step#"),
        "gpu_type": Fact("GPU", "traces, device events"),
        "gpu_model": Fact("nvidia_a100_sxm4_40gb", "traces, deviceProperties"),
        "total_count": Fact(4, "traces, world size"),
        "count_per_node": Fact(2, "traces, ranks of each host"),
        "communication_library": Fact("NCCL", "traces, backend"),
        "communication_library_version": Fact("2.21.5", "traces, nccl_version"),
        "tp": Fact(2, "traces, process groups"),
        "traces": Fact(("kineto_trace",), "traces, files found"),
    }


def test_devices_of_a_node_are_not_counted_when_ranks_are_missing() -> None:
    ranks = [gpu_rank(rank, host=f"node{rank // 2}") for rank in range(3)]

    facts = draft(job(*ranks), None)

    assert "count_per_node" not in facts
    assert facts["total_count"].value == 4


def test_unequal_hosts_and_two_kinds_of_device_state_nothing() -> None:
    ranks = [gpu_rank(rank, host="a" if rank else "b") for rank in range(4)]
    ranks[0] = replace(ranks[0], devices=(Device(0, "NVIDIA H100"),))

    facts = draft(job(*ranks), None)

    assert "count_per_node" not in facts
    assert "gpu_model" not in facts


def test_a_job_on_cpus_has_no_devices_and_uses_gloo() -> None:
    trace = replace(rank_trace(0, world_size=2, cpu_ops=[Event("aten::mm", 0, 1, 1)]))
    trace = replace(trace, backend="cpu:gloo")

    assert draft(job(trace), None) == {
        "communication_library": Fact("gloo", "traces, backend"),
        "traces": Fact(("kineto_trace",), "traces, files found"),
    }


def test_the_library_of_the_device_is_preferred_to_gloo() -> None:
    trace = replace(gpu_rank(0, host="a"), backend="cpu:gloo,cuda:nccl")

    assert draft(job(trace), None)["communication_library"].value == "NCCL"


def test_sources_contain_the_key_of_the_configuration_and_unset_degrees() -> None:
    values: dict[str, str | int] = {
        "training.local_batch_size": 2,
        "parallelism.tensor_parallel_degree": 4,
        "parallelism.data_parallel_shard_degree": -1,
    }

    facts = draft(None, TrainConfig("c.toml", values))

    assert facts["batch_size"] == Fact(2, "configuration, training.local_batch_size, of a rank")
    assert "batch_size_scope" not in facts
    assert facts["tp"] == Fact(4, "configuration, parallelism.tensor_parallel_degree")
    assert facts["pp"].source == (
        "configuration, parallelism.pipeline_parallel_degree is not set: 1"
    )
    assert "dp_shard" not in facts
    assert "model_family" not in facts


def test_the_trace_has_precedence_over_the_configuration() -> None:
    values: dict[str, str | int] = {
        "training.local_batch_size": 2,
        "parallelism.tensor_parallel_degree": 1,
        "parallelism.data_parallel_shard_degree": -1,
    }
    ranks = [gpu_rank(rank, host="a") for rank in range(4)]

    facts = draft(job(*ranks), TrainConfig("c.toml", values))

    assert facts["tp"] == Fact(2, "traces, process groups")
    assert facts["dp_shard"].value == 4
    assert facts["batch_size"].value == 8
    assert facts["batch_size_scope"].value == "global"


def test_only_groups_of_one_axis_determine_a_degree() -> None:
    """The groups of torchtitan 0.2.2 with tensor parallelism over both ranks."""
    sizes = {
        "default_pg": 2,
        "mesh_pp": 1,
        "mesh_dp_replicate": 1,
        "mesh_fsdp": 1,
        "mesh_efsdp": 2,
        "mesh_etp": 1,
        "TENSOR_MODEL_PARALLEL_GROUP": 2,
        "DATA_PARALLEL_GROUP_WITH_CP": 2,
    }
    groups = [
        ProcessGroup(str(index), name, tuple(range(size)), size)
        for index, (name, size) in enumerate(sizes.items())
    ]

    facts = draft(job(rank_trace(0, world_size=2, groups=groups)), None)

    assert {name: facts[name].value for name in CONFIG_KEYS if name in facts} == {
        "pp": 1,
        "dp_replicate": 1,
        "tp": 2,
    }
    assert facts["tp"].source == "traces, process groups"


def test_groups_of_one_name_and_two_sizes_determine_no_degree() -> None:
    groups = [ProcessGroup("1", "mesh_tp", (0, 1), 2), ProcessGroup("2", "mesh_tp", (0,), 1)]

    assert "tp" not in draft(job(rank_trace(0, world_size=2, groups=groups)), None)


@pytest.mark.parametrize(
    ("folder", "degrees"),
    [
        ("titan022_llama_tp2", {"pp": 1, "cp": 1, "dp_replicate": 1, "ep": 1}),
        ("titan022_llama_3d_8", {"tp": 2, "pp": 2, "cp": 1, "dp_replicate": 1, "ep": 1}),
        ("fake_1024", {"tp": 8}),
    ],
)
def test_degrees_of_recorded_jobs(shared: Path, folder: str, degrees: dict[str, int]) -> None:
    recorded = open_job(shared / "recorded" / folder, jobs=1)

    facts = draft(recorded, None)

    assert {name: facts[name].value for name in CONFIG_KEYS if name in facts} == degrees
    assert facts["phase"].value == "training"
