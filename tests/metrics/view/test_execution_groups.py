"""A gloo job with two groups, which only its execution traces name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

TENSOR = [11, 12, 0, 2048, 4, "cpu"]
PAIRS = {0: ("tp_a", [0, 1]), 1: ("tp_a", [0, 1]), 2: ("tp_b", [2, 3]), 3: ("tp_b", [2, 3])}
CROSS = {0: ("dp_a", [0, 2]), 2: ("dp_a", [0, 2]), 1: ("dp_b", [1, 3]), 3: ("dp_b", [1, 3])}
LATE_US = 400  # rank 3 comes late to every collective


def calls_of(rank: int) -> list[tuple[str, int, int]]:
    """Group, start and length in us: within the pair, then across, ten times."""
    calls = []
    for k in range(10):
        for turn, group in enumerate((PAIRS[rank], CROSS[rank])):
            end = 2000 * k + 1000 * turn + 900
            late = LATE_US if rank == 3 else 10 * rank
            calls.append((group[0], end - 800 + late, 800 - late))
    return calls


def kineto(rank: int) -> dict[str, Any]:
    shapes = {"Input Dims": [[2048]], "Input type": ["float"]}
    events = []
    for index, (_, start, length) in enumerate(calls_of(rank)):
        base = {"ph": "X", "pid": 1, "dur": 5}
        for k, name in enumerate(("_c10d_functional::all_reduce", "c10d::allreduce_")):
            number = {"Record function id": 10 * index + k + 1, **shapes}
            row = {"cat": "cpu_op", "name": name, "tid": 1, "ts": start - 20 + k}
            events.append({**base, **row, "args": number})
        number = {"Record function id": 10 * index + 3, **shapes}
        row = {"cat": "user_annotation", "name": "gloo:all_reduce", "tid": 2, "ts": start}
        events.append({**base, **row, "dur": length, "args": number})
    groups = [PAIRS[rank], CROSS[rank]]
    table = [
        {"pg_name": name, "pg_desc": name, "pg_size": 2, "ranks": ranks, "backend_config": "gloo"}
        for name, ranks in groups
    ]
    information = {"backend": "gloo", "rank": rank, "world_size": 4, "pg_config": table}
    return {"distributedInfo": information, "host_name": "a", "traceEvents": events}


def execution(rank: int) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for index, (group, _, _) in enumerate(calls_of(rank)):
        outer = 100 * index + 10
        for k, (name, values, types) in enumerate(
            (
                ("_c10d_functional::all_reduce", [TENSOR, "sum", group], ["Tensor(float)"]),
                ("c10d::allreduce_", [[TENSOR], "<Object>"], ["GenericList[Tensor(float)]"]),
                ("gloo:all_reduce", [TENSOR], ["Tensor(float)"]),
            )
        ):
            nodes.append(
                {
                    "id": outer + k,
                    "name": name,
                    "ctrl_deps": outer + k - 1,
                    "inputs": {"values": values, "shapes": [], "types": types},
                    "attrs": [{"name": "rf_id", "type": "uint64", "value": 10 * index + k + 1}],
                }
            )
    table = [
        {"pg_name": name, "pg_desc": name, "ranks": ranks, "group_size": 2}
        for name, ranks in (PAIRS[rank], CROSS[rank])
    ]
    head = {"id": 3, "name": "## process_group:init ##", "ctrl_deps": 2, "attrs": []}
    nodes.append({**head, "inputs": {"values": [json.dumps(table)], "shapes": [], "types": []}})
    return {"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in range(4):
        (tmp_path / f"kineto_trace_{rank}.json").write_text(json.dumps(kineto(rank)))
    return tmp_path


def view_of(folder: Path) -> View:
    return View(open_job(folder, cache_dir=folder / "cache", jobs=1))


def test_execution_traces_determine_the_groups_and_the_late_rank(folder: Path) -> None:
    for rank in range(4):
        (folder / f"torch_et_{rank}.json").write_text(json.dumps(execution(rank)))
    view = view_of(folder)

    counted = find("coll_call_num").run(view).details["calls_by_group"]
    lag = find("straggler_lag").run(view)

    assert {(row["name"], row["calls"]) for row in counted} == {
        (name, 20) for name in ("tp_a", "tp_b", "dp_a", "dp_b")
    }
    assert lag.details["num_collectives"] == 40
    assert lag.details["stragglers"] == [3]
    assert lag.details["max_lag_us"] == LATE_US - 10


def test_groups_are_unknown_without_execution_traces(folder: Path) -> None:
    counted = find("coll_call_num").run(view_of(folder)).details["calls_by_group"]

    assert {row["name"] for row in counted} == {None}
