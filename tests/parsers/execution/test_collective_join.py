"""What an execution trace adds to the Kineto trace of its rank, and when it adds nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from executions import TENSOR, chakra, document, event, flat, functional, kineto, listed_groups

from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.job import open_job
from ccltui.parsers.kineto.execution_join import joined, lacks_metadata
from ccltui.parsers.kineto.execution_trace import KNOWN, read_execution_trace
from ccltui.parsers.kineto.kineto_reader import read_kineto

TP = ProcessGroup("3", "mesh_tp", (0, 1), 2)


@pytest.fixture(params=["0", "1"], ids=["general", "compiled"], autouse=True)
def _decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLTUI_ACCEL", request.param)


def join(tmp_path: Path, nodes: list[dict[str, Any]], events: list[dict[str, Any]]) -> RankTrace:
    execution = tmp_path / "torch_et_0.json"
    execution.write_text(document(nodes, KNOWN[-1]))
    trace = read_kineto(kineto(tmp_path / "kineto_trace_0.json", events))
    assert lacks_metadata(trace)
    return joined(trace, read_execution_trace(execution, shown=execution.name))


def said(trace: RankTrace, group: str = "cpu_ops") -> list[tuple[str, str]]:
    """Name and group of each event that describes a collective."""
    events, args = trace.group(group), trace.collective_args  # type: ignore[arg-type]
    rows = [int(row) for row in events.args]
    return [
        (
            trace.text(int(name)),
            trace.process_groups[args.group[row]].name if args.group[row] >= 0 else "",
        )
        for name, row in zip(events.name, rows, strict=True)
        if row >= 0
    ]


def gloo(record: int, start: int) -> list[dict[str, Any]]:
    """Kineto's events of one functional all-reduce."""
    number = {"Record function id": record, "External id": 900 + record}
    return [
        event("_c10d_functional::all_reduce", start, number),
        event("c10d::allreduce_", start + 1, number | {"Record function id": record + 1}),
        event(
            "gloo:all_reduce",
            start + 2,
            number | {"Record function id": record + 2},
            cat="user_annotation",
            tid=9,
        ),
    ]


def test_operators_get_the_groups_that_functional_ones_name(tmp_path: Path) -> None:
    nodes = [listed_groups(), *functional(4, 5, "3"), *functional(8, 9, "0")]

    trace = join(tmp_path, nodes, gloo(5, 10) + gloo(9, 30))

    assert said(trace) == [
        ("_c10d_functional::all_reduce", "3"),
        ("c10d::allreduce_", "3"),
        ("_c10d_functional::all_reduce", "0"),
        ("c10d::allreduce_", "0"),
    ]
    assert said(trace, "annotations") == [("gloo:all_reduce", "3"), ("gloo:all_reduce", "0")]
    assert set(trace.process_groups) == {TP, ProcessGroup("0", "default_pg", (0, 1, 2, 3), 4)}
    assert [(note.code, note.count) for note in trace.notes] == [("execution_trace", 6)]


def test_a_node_that_repeats_a_number_describes_nothing(tmp_path: Path) -> None:
    nodes = [listed_groups(), *functional(4, 5, "3")]
    nodes[-1]["id"] = nodes[-2]["id"]

    trace = join(tmp_path, nodes, gloo(5, 10))

    assert said(trace)[0] == ("_c10d_functional::all_reduce", "3")


def test_before_2024_the_numbers_differ_by_a_constant(tmp_path: Path) -> None:
    values = [[TENSOR], 337, 77, 3, "allreduce", [], [], 4]
    types = ["GenericList[Tensor(c10::Half)]", "Int", "Int", "Int", "String"]
    nodes = [
        node
        for k in range(4)
        for node in (
            flat(10 * k, "c10d::allreduce_", 2 * k + 1, values=[[TENSOR]], types=types[:1]),
            flat(10 * k + 1, "record_param_comms", 2 * k + 2, 10 * k, values=values, types=types),
        )
    ]
    events = [
        one
        for k in range(4)
        for one in (
            event("c10d::allreduce_", 20 * k, {"External id": 2 * k + 8}),
            event("record_param_comms", 20 * k + 1, {"External id": 2 * k + 9}),
        )
    ]
    execution = tmp_path / "torch_et_0.json"
    execution.write_text(document(nodes, "1.0.1"))
    trace = read_kineto(kineto(tmp_path / "kineto_trace_0.json", events))

    found = joined(trace, read_execution_trace(execution, shown="et"))

    args = found.collective_args
    rows = found.group("cpu_ops").args
    assert [found.text(int(args.op[row])) for row in rows] == ["", "allreduce"] * 4
    assert args.seq[rows].tolist() == [-1, 337] * 4
    # as large as the world: the number of the process stands for the group of all ranks
    assert found.process_groups == (ProcessGroup("", "", (0, 1, 2, 3), 4),)


def test_what_kineto_states_stays(tmp_path: Path) -> None:
    stated = {"Collective name": "allreduce", "In msg nelems": 7, "dtype": "Float"}
    events = [
        event("record_param_comms", 5, {"Record function id": 5, **stated}),
        *gloo(9, 30),
    ]
    node = chakra(
        4,
        "record_param_comms",
        5,
        values=[[TENSOR], 5, ["3", "mesh_tp"], 0, "broadcast", [], []],
        types=["GenericList[Tensor(float)]"],
    )

    trace = join(tmp_path, [listed_groups(), node, *functional(8, 9, "3")], events)

    args, row = trace.collective_args, int(trace.group("cpu_ops").args[0])
    assert (trace.text(int(args.op[row])), args.in_elems[row]) == ("allreduce", 7)
    assert (args.seq[row], trace.process_groups[args.group[row]]) == (5, TP)


def test_another_run_is_seen_by_its_names(tmp_path: Path) -> None:
    nodes = [listed_groups(), *functional(4, 5, "3")]
    events = gloo(6, 10)  # the numbers stand for other operators here

    trace = join(tmp_path, nodes, events)

    assert {name for _, name in said(trace)} == {""}
    assert [note.code for note in trace.notes] == ["execution_trace_unfit"]


def test_nothing_is_said_where_nothing_is_added(tmp_path: Path) -> None:
    node = functional(4, 5, "3")[1] | {"ctrl_deps": 2}
    events = [event("c10d::allreduce_", 1, {"Record function id": 6})]

    assert join(tmp_path, [node], events).notes == ()


def test_groups_of_a_process_that_are_not_the_world_stay_unknown(tmp_path: Path) -> None:
    types = ["GenericList[Tensor(float)]", "Int", "Int", "Int", "String"]
    nodes = [
        chakra(
            4 + k,
            "record_param_comms",
            5 + k,
            values=[[TENSOR], 1, pointer, 0, "allreduce", [], [], size],
            types=types,
        )
        for k, (pointer, size) in enumerate([(77, 4), (78, 4), (79, 2), (80, 1)])
    ]
    events = [event("record_param_comms", 10 * k, {"Record function id": 5 + k}) for k in range(4)]

    trace = join(tmp_path, nodes, events)

    found = [trace.collective_args.group[row] for row in trace.group("cpu_ops").args]
    known = [trace.process_groups[group].ranks if group >= 0 else None for group in found]
    assert known == [(0, 1, 2, 3), None, None, (0,)]


def test_a_directory_is_joined_and_stored(tmp_path: Path) -> None:
    folder, cache = tmp_path / "job", tmp_path / "cache"
    folder.mkdir()
    for rank in range(2):
        nodes = [listed_groups(), *functional(4, 5, "3")]
        (folder / f"torch_et_{rank}.json").write_text(document(nodes, KNOWN[-1]))
        kineto(folder / f"kineto_trace_{rank}.json", gloo(5, 10), rank=rank)

    first = open_job(folder, cache_dir=cache, jobs=1)
    again = open_job(folder, cache_dir=cache, jobs=1)

    for job in (first, again):
        assert [said(rank)[0][1] for rank in job.ranks] == ["3", "3"]
        assert [file.companion.path for file in job.capture.files if file.companion] == [
            "torch_et_0.json",
            "torch_et_1.json",
        ]
    (folder / "torch_et_1.json").write_text(document(nodes[:1], KNOWN[-1]))
    assert [said(rank)[0][1] for rank in open_job(folder, cache_dir=cache, jobs=1).ranks] == [
        "3",
        "",
    ]


def test_a_broken_execution_trace_is_a_note(tmp_path: Path) -> None:
    kineto(tmp_path / "kineto_trace_0.json", gloo(5, 10))
    (tmp_path / "torch_et_0.json").write_text('{"schema":"1.0.1","nodes":[{]}')

    (rank,) = open_job(tmp_path, cache_dir=tmp_path / "cache", jobs=1).ranks

    assert [note.code for note in rank.notes] == ["execution_trace_unread"]


def test_each_capture_has_its_own(tmp_path: Path) -> None:
    for iteration in (5, 10):
        folder = tmp_path / f"iteration_{iteration}"
        folder.mkdir()
        kineto(folder / "rank0_trace.json", gloo(5, iteration))
        (folder / "torch_et_0.json").write_text(json.dumps({"schema": "1.0.1", "nodes": []}))

    found = [file.companion for capture in discover(tmp_path).captures for file in capture.files]

    assert [beside.path for beside in found if beside] == [
        "iteration_5/torch_et_0.json",
        "iteration_10/torch_et_0.json",
    ]


def test_two_of_one_rank_are_none(tmp_path: Path) -> None:
    kineto(tmp_path / "kineto_trace_0.json", gloo(5, 10))
    for name, schema in (("torch_et_0.json", "1.0.1"), ("other_0.json", KNOWN[-1])):
        (tmp_path / name).write_text(document([], schema))

    (capture,) = discover(tmp_path).captures

    assert capture.files[0].companion is None
