"""Device work by node of a graph, by repetition, by guessed step."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from factories import allreduce, job, kernel, rank_trace, step
from msgspec.structs import replace
from serving_job import ServingJob, write_serving_job

import ccltui
from ccltui.api import Job
from ccltui.metrics.device.repetition import Block, NoBlockError, block_of
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window

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


def layers(rank: int, scale: int = 1, *, before: str = "") -> RankTrace:
    """Three layers of norm, gemm, gemm on stream 7, each 100 us apart; the third has no gemm.

    ``before`` gives the rank another name first, so that its name ids differ.
    """
    gpu = [kernel(before, 0, 1, 9)] if before else []
    for i in range(2):
        at = 10 + 100 * i
        gpu += [
            kernel("norm", at, 5 * scale),
            kernel("gemm", at + 10, (20 + i) * scale),
            kernel("gemm", at + 50, 30 * scale),
            kernel("other", at + 20, 1, 8),  # on another stream
        ]
    gpu += [kernel("norm", 210, 5), kernel("gemm", 220, 7), kernel("norm", 250, 6)]
    return rank_trace(rank, gpu=gpu)


def of(row: int, *ranks: RankTrace, **options: object) -> Block:
    return block_of(View(job(*ranks), ViewOptions(**options)), "0", row)  # type: ignore[arg-type]


def test_positions_over_repetitions_and_ranks() -> None:
    found = of(0, layers(0), layers(1, 2, before="aaa"))

    assert [one.name for one in found.positions] == ["norm", "gemm", "gemm"]
    assert (found.repetitions, found.others, found.by_rank) == (4, 2, {"0": 2, "1": 2})
    assert (found.stream, found.period_ns) == ("7", 100_000)
    norm, first, _ = found.positions
    assert (norm.count, norm.median_ns, norm.least_ns, norm.most_ns) == (4, 7_500, 5_000, 10_000)
    assert (first.p5_ns, first.p95_ns, first.spread_ns) == (20_000, 42_000, 22_000)
    assert norm.gap_ns == 2_500  # median of 5, 5, 0 and 0 us


def test_a_window_limits_the_repetitions_not_the_block() -> None:
    found = of(0, layers(0), window=Window(100_000, None))

    assert (found.repetitions, found.others) == (1, 1)
    assert found.positions[1].median_ns == 21_000


def test_a_kernel_that_follows_itself_is_a_block_of_one() -> None:
    found = of(1, layers(0))

    assert [one.name for one in found.positions] == ["gemm"]
    assert found.repetitions == 2


@pytest.mark.parametrize(
    ("row", "why"),
    [(9, "norm does not occur again"), (3, "other does not occur again")],
)
def test_the_last_occurrence_of_a_kernel_begins_no_block(row: int, why: str) -> None:
    trace = (
        layers(0)
        if row == 9
        else rank_trace(0, gpu=[*[kernel("a", i, 1) for i in range(3)], kernel("other", 9, 1)])
    )
    row = len(trace.group("gpu")) - 1
    with pytest.raises(NoBlockError, match=why):
        of(row, trace)


def test_no_measured_block_is_an_error() -> None:
    trace = layers(0)
    marked = rank_trace(
        0, gpu=[kernel("a", 0, 1), kernel("a", 5, 1)], annotations=[step(1, 100, 10)]
    )
    with pytest.raises(NoBlockError, match="begins in the measured time"):
        of(0, marked)
    assert of(0, trace).repetitions == 2


TEXT = (
    "2 of 4 device events of rank 0 have no launch record, and it is not clear which step "
    "launched them: each counts in the most likely step, if any"
)


def view_of_short_markers(options: ViewOptions | None = None) -> View:
    """The host needs 20 us for a step, the device 60, and no launch is recorded."""
    trace = rank_trace(
        annotations=[step(n, 100 * n, 20) for n in (1, 2)],
        gpu=[
            event
            for n in (1, 2)
            for event in (kernel("gemm", 100 * n + 5, 25), allreduce(100 * n + 40, 25))
        ],
    )
    return View(job(trace), options)


@pytest.mark.parametrize(
    "name", ["comm_comp_overlap", "temporal_breakdown", "gpu_busy", "kernels", "memory_transfer"]
)
def test_times_of_the_device_are_partial_with_the_number(name: str) -> None:
    result = metrics()[name].run(view_of_short_markers())

    assert result.status == "partial"
    assert [(r.code, r.message) for r in result.reasons] == [("uncorrelated_work", TEXT)]


def test_guessed_work_counts_in_the_step_before_it() -> None:
    found = metrics()["comm_comp_overlap"].run(view_of_short_markers()).details

    assert (found["num_comm_kernels"], found["num_comp_kernels"]) == (2, 2)
    assert found["window_ms"] == pytest.approx(0.16)  # 105 to 205, and 205 to 265


def test_counts_of_all_calls_need_no_step() -> None:
    assert metrics()["coll_call_num"].run(view_of_short_markers()).status == "ok"
    one_step = view_of_short_markers(ViewOptions(steps=(2, 2)))
    found = metrics()["coll_call_num"].run(one_step)
    assert (found.status, found.reason, found.value) == ("partial", "uncorrelated_work", 1)


def test_the_whole_trace_needs_no_step() -> None:
    whole = view_of_short_markers(ViewOptions(span="trace"))

    assert metrics()["comm_comp_overlap"].run(whole).status == "ok"
