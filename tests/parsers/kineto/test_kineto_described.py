"""Test that arguments of collectives shared by events are decoded once, with equal results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kineto_fuzz import difference

from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.kineto.scanner import typed_event

pytestmark = pytest.mark.skipif(
    not typed_event.compiled(), reason="the scanner is not compiled here"
)

STATED = {
    "Collective name": "allreduce",
    "In msg nelems": 8,
    "Out msg nelems": 8,
    "Group size": 2,
    "dtype": "Float",
    "In split size": "[]",
    "Out split size": "[]",
    "Process Group Name": "0",
    "Process Group Description": "default",
    "Process Group Ranks": "[0, 1]",
    "Seq": 3,
    "Comms Id": "12345678901234567890",
    "Is asynchronized op": 1,
}
SHAPED = {
    "Input Dims": [[4, 2], [], [1]],
    "Input type": ["float", "", "Scalar"],
    "Concrete Inputs": ["", "", "1"],
}


def event(index: int, args: Any, cat: str = "kernel", name: str = "nccl") -> dict[str, Any]:
    times = {"ts": index * 1.5, "dur": 1}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, **times, "args": args}


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}))
    return path


SEQUENCES: list[Any] = [
    *(0, 1, 3, -1, -2, 10**17, 10**18 - 1, 10**18, 2**62, 2**63, 10**30, 1.5, 1e3),
    *("5", "x", "", None, True, False, [], {}, [1]),
]
VALUES: list[Any] = [
    None,
    "",
    "a",
    "\u00e9",
    'q"\\',
    0,
    5,
    -1,
    1.5,
    10**19,
    True,
    [],
    [1, 2],
    {},
    "[0, 1, ...]",
]


@pytest.mark.parametrize("size", [7, 64, 8 << 20])
@pytest.mark.parametrize("key", list(STATED))
def test_any_value_of_any_member_is_read_equally(tmp_path: Path, key: str, size: int) -> None:
    values = SEQUENCES if key == "Seq" else VALUES
    events = [
        event(index, {**STATED, key: value}, cat)
        for index, value in enumerate(values)
        for cat in ("kernel", "cpu_op", "user_annotation", "cuda_runtime")
    ]

    assert difference(written(tmp_path / "trace.json", events), size) is None


@pytest.mark.parametrize("key", list(STATED))
def test_absent_members_are_read_equally(tmp_path: Path, key: str) -> None:
    fewer = {name: value for name, value in STATED.items() if name != key}
    events = [event(index, args) for index, args in enumerate((STATED, fewer, STATED))]

    assert difference(written(tmp_path / "trace.json", events), 100) is None


@pytest.mark.parametrize(
    "name",
    ["record_param_comms", "c10d::send", "c10d::recv_", "c10d::allreduce_", "nccl:x", "aten::mm"],
)
@pytest.mark.parametrize("cat", ["kernel", "cpu_op", "user_annotation", "python_function"])
def test_inputs(tmp_path: Path, name: str, cat: str) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"Concrete Inputs": ["", "", "2"]},
        {"Concrete Inputs": None},
        {"Input Dims": [[[2], [3]]], "Input type": ["TensorList"]},
        {"Input Dims": "x"},
        {"Input type": None},
        {"Collective name": None},
        {"In msg nelems": None},
        {"Collective name": "send"},
        {"Seq": 4},
    ]
    events = [event(index, {**SHAPED, **change}, cat, name) for index, change in enumerate(changes)]

    assert difference(written(tmp_path / "trace.json", events), 50) is None


def test_reordered_and_duplicate_members_are_read_equally(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    backwards = dict(reversed(STATED.items()))
    events = [event(index, args) for index, args in enumerate((STATED, backwards))]
    twice = json.dumps(events[0]).replace('"Seq": 3', '"Seq": 3, "Seq": 4')
    path.write_text(f"[{json.dumps(events[1])}, {twice}, {json.dumps(events[0])}]")

    assert difference(path, 33) is None


def test_calls_that_differ_in_sequence_number_only(tmp_path: Path) -> None:
    events = [event(index, {**STATED, "Seq": index}) for index in range(1000)]

    trace = read_kineto(written(tmp_path / "trace.json", events))

    assert trace.collective_args.seq.tolist() == list(range(1000))
    assert set(trace.collective_args.comms_id.tolist()) == {12345678901234567890}
    assert trace.group("gpu").args.tolist() == list(range(1000))


def test_more_descriptions_than_the_table_holds(tmp_path: Path) -> None:
    events = [event(index, {**STATED, "In msg nelems": index}) for index in range(17_000)]
    events += [event(index, {**STATED, "In msg nelems": index // 2}) for index in range(17_000)]

    assert difference(written(tmp_path / "trace.json", events), 65_536) is None
