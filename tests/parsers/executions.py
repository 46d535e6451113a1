"""Small execution traces in every form, and the Kineto events of the same operators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TENSOR = [11, 12, 0, 2048, 4, "cpu"]
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4},
    {"pg_name": "3", "pg_desc": "mesh_tp", "ranks": [0, 1], "group_size": 2},
]


def flat(number: int, name: str, record: int, parent: int = 2, **members: Any) -> dict[str, Any]:
    """A node of schema 1.0.1."""
    return {
        "name": name,
        "id": number,
        "rf_id": record,
        "parent": parent,
        "tid": 1,
        "inputs": members.pop("values", []),
        "input_shapes": members.pop("shapes", []),
        "input_types": members.pop("types", []),
        **members,
    }


def chakra(number: int, name: str, record: int, parent: int = 2, **members: Any) -> dict[str, Any]:
    """A node of the later schemas; further members are attributes."""
    inputs = {key: members.pop(key, []) for key in ("values", "shapes", "types")}
    attributes = {"rf_id": record, "tid": 1, **members}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": inputs,
        "outputs": {"values": [], "shapes": [], "types": []},
        "attrs": [{"name": key, "type": "x", "value": value} for key, value in attributes.items()],
    }


def document(nodes: list[dict[str, Any]], schema: str, **head: Any) -> str:
    return json.dumps(
        {"schema": schema, "start_ts": 1000, "finish_ts": 4000, "nodes": nodes} | head
    )


def listed_groups(number: int = 3) -> dict[str, Any]:
    return chakra(
        number, "## process_group:init ##", 1, values=[json.dumps(GROUPS)], types=["String"]
    )


def functional(number: int, record: int, group: str) -> list[dict[str, Any]]:
    """An all-reduce of gloo: the functional operator names its group, the inner one does not."""
    return [
        chakra(
            number,
            "_c10d_functional::all_reduce",
            record,
            values=[TENSOR, "sum", group],
            types=["Tensor(float)", "String", "String"],
        ),
        chakra(
            number + 1,
            "c10d::allreduce_",
            record + 1,
            parent=number,
            values=[[TENSOR], "<Object>"],
            types=["GenericList[Tensor(float)]", "Object"],
        ),
        chakra(
            number + 2,
            "gloo:all_reduce",
            record + 2,
            parent=number + 1,
            values=[TENSOR],
            types=["Tensor(float)"],
        ),
    ]


def event(
    name: str,
    start: int,
    args: Mapping[str, Any] | None = None,
    *,
    cat: str = "cpu_op",
    tid: int = 1,
) -> dict[str, Any]:
    """A Kineto event of 5 µs; "Input Dims" and the type are those of TENSOR."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start,
        "dur": 5,
        "args": {"Input Dims": [[2048]], "Input type": ["float"], **(args or {})},
    }


def kineto(path: Path, events: list[dict[str, Any]], rank: int = 0, world: int = 4) -> Path:
    path.write_text(
        json.dumps({"distributedInfo": {"rank": rank, "world_size": world}, "traceEvents": events})
    )
    return path
