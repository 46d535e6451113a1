"""Nodes of graphs over replays and ranks: durations, the slow one, and when none is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import ccltui
from ccltui.api import Job
from ccltui.demo.serving_job import ServingJob, write_serving_job

SLOW = ServingJob(replicas=1, ranks=4, slow_rank=(0, 2), slow_layer=1)


def opened(
    folder: Path, spec: ServingJob, change: Callable[[int, dict[str, Any]], None] | None = None
) -> Job:
    """Open the traces of a server, each kernel changed by a function of rank and event."""
    write_serving_job(folder / "traces", spec)
    for rank, path in enumerate(sorted((folder / "traces").iterdir())):
        if change is not None:
            document = json.loads(gzip.decompress(path.read_bytes()))
            for event in document["traceEvents"]:
                if event["cat"] == "kernel":
                    change(rank, event)
            path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return ccltui.open(folder / "traces", cache_dir=folder / "cache")


def slow_row(details: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the node that computes and differs most between ranks."""
    rows = [one for one in details["nodes"] if not one["is_communication"]]
    found: dict[str, Any] = max(rows, key=lambda one: one["ratio"])
    return found


def test_graph_nodes_joins_replays_and_ranks_whose_ids_differ(tmp_path: Path) -> None:
    found = opened(tmp_path, SLOW).metric("graph_nodes").details

    assert (found["num_nodes"], found["num_graphs"]) == (len(SLOW.nodes), 1)
    assert (found["imbalance_ratio"], found["slow_rank"], found["slow_us"]) == (3.0, "2", 80.0)
    first = slow_row(found)
    assert first["module"] == SLOW.slow_module == "model.layers.1.mlp.down_proj"
    assert first["replays"] == 4 * SLOW.decodes
    assert (first["slowest_rank"], first["slowest_us"], first["others_us"]) == ("2", 120.0, 40.0)
    assert (first["min_us"], first["max_us"], first["num_ranks"]) == (40.0, 120.0, 4)
    module = next(one for one in found["modules"] if one["module"] == SLOW.slow_module)
    assert module["num_nodes"] == 2  # the product, and the reduction after it


@pytest.mark.parametrize(
    "spec",
    [
        replace(SLOW, annotates=False),
        replace(SLOW, states_nodes=False),
        replace(SLOW, states_nodes=False, hip=True),
    ],
)
def test_without_annotations_or_ids_the_node_is_known_by_its_kernel_and_place(
    tmp_path: Path, spec: ServingJob
) -> None:
    found = opened(tmp_path, spec).metric("graph_nodes").details

    first = slow_row(found)
    assert (first["name"], first["module"]) == ("nvjet_tst_256x64_64x4_down", None)
    assert first["node"] == 1 + 7 + 5
    assert (found["slow_rank"], found["slow_us"]) == ("2", 80.0)


def test_the_finding_names_module_and_rank(tmp_path: Path) -> None:
    found = opened(tmp_path, SLOW).metric("findings").details["findings"]

    first = next(one for one in found if one["where"]["ranks"] == ["2"])
    assert first["where"]["range"] == "model.layers.1.mlp.down_proj"
    assert first["where"]["kernel"] == "nvjet_tst_256x64_64x4_down"
    assert first["more"].endswith(
        "Rank 2 takes 120 us for model.layers.1.mlp.down_proj in each replay of its graph, the "
        "others 40 us."
    )


def without_collectives(_: int, event: dict[str, Any]) -> None:
    if event["name"].startswith("nccl"):
        event["name"] = "void small_elementwise_kernel"
        event["args"] = {k: v for k, v in event["args"].items() if k[0].islower()}


def test_without_collectives_the_layer_is_a_finding_of_its_own(tmp_path: Path) -> None:
    found = opened(tmp_path, SLOW, without_collectives).metric("findings").details["findings"]

    slow = next(one for one in found if one["class"] == "slow_layer")
    assert slow["text"].startswith("Rank 2 takes 120 us for model.layers.1.mlp.down_proj in each ")
    assert slow["where"]["ranks"] == ["2"]


def slow_device(rank: int, event: dict[str, Any]) -> None:
    """Let all kernels of rank 1 take a fifth longer; nothing waits for it."""
    without_collectives(rank, event)
    if rank == 1:
        event["dur"] *= 1.2


def test_a_device_that_is_slow_as_a_whole_is_no_slow_layer(tmp_path: Path) -> None:
    job = opened(tmp_path, ServingJob(replicas=1, ranks=4, layers=8), slow_device)

    assert job.metric("graph_nodes").details["slow_rank"] == "1"
    kinds = [one["class"] for one in job.metric("findings").details["findings"]]
    assert "slow_layer" not in kinds


def varying(rank: int, event: dict[str, Any]) -> None:
    """Let durations of one node vary between replays as much as ranks differ."""
    without_collectives(rank, event)
    if event["name"].endswith("lm_head"):
        event["dur"] += (int(event["ts"]) * 7919 + rank * 104729) % 40


def test_what_varies_between_replays_names_no_rank(tmp_path: Path) -> None:
    job = opened(tmp_path, ServingJob(replicas=1, ranks=4, decodes=30), varying)

    assert job.metric("graph_nodes").details["slow_rank"] is None
    kinds = [one["class"] for one in job.metric("findings").details["findings"]]
    assert "slow_layer" not in kinds


def test_ranks_that_wait_in_collectives_are_not_slow(tmp_path: Path) -> None:
    found = opened(tmp_path, SLOW).metric("graph_nodes").details

    waits = [one for one in found["nodes"] if one["is_communication"]]
    assert max(one["max_us"] - one["min_us"] for one in waits) == pytest.approx(80.0)
    assert found["slow_rank"] == "2"


def two_graphs(_: int, event: dict[str, Any]) -> None:
    """Give every second replay to another graph that runs the same kernels."""
    args = event["args"]
    if args.get("graph node id") and args["correlation"] // 32 % 2:
        args["graph id"] += 100
        args["graph node id"] += 100 << 32


def test_graphs_that_run_the_same_kernels_are_joined_in_their_order(tmp_path: Path) -> None:
    found = opened(tmp_path, SLOW, two_graphs).metric("graph_nodes").details

    assert found["num_graphs"] == 2
    assert found["num_nodes"] == 2 * len(SLOW.nodes)
    assert {one["num_ranks"] for one in found["nodes"]} == {4}
    assert found["slow_us"] == 160.0


def test_without_graphs_it_is_not_applicable(tmp_path: Path) -> None:
    result = opened(tmp_path, ServingJob(replays_graphs=False)).metric("graph_nodes")

    assert (result.status, result.reason) == ("unavailable", "not_applicable")


@pytest.mark.parametrize("value", ["x", -5, None, 1.5, [], (1 << 64) - 1])
def test_odd_ids_are_no_nodes_and_end_nothing(tmp_path: Path, value: object) -> None:
    def change(_: int, event: dict[str, Any]) -> None:
        if event["args"].get("graph node id"):
            event["args"] |= {"graph node id": value, "graph id": value, "module_fqn": value}

    job = opened(tmp_path, SLOW, change)

    assert job.metric("graph_nodes").status in ("ok", "partial", "unavailable")
    assert job.metric("findings").status == "ok"
