"""Nodes of CUDA and HIP graphs, and the modules that annotations state of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.job import open_job
from ccltui.parsers.kineto.kineto_reader import read_kineto

NODE = (11 << 32) + 5


def kernel(start: int, **args: Any) -> dict[str, Any]:
    shape = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": start, "dur": 1}
    return {**shape, "args": args}


def graph(node: Any, **args: Any) -> dict[str, Any]:
    return {"graph node id": node, "graph id": 11, **args}


@pytest.fixture(params=["general", "compiled", "compiled before nodes were read"])
def read(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CCLTUI_ACCEL", "0" if request.param == "general" else "1")
    if request.param.endswith("read"):
        monkeypatch.setattr("ccltui.parsers.kineto.event_list.reads_nodes", lambda: False)

    def reading(*events: dict[str, Any]) -> RankTrace:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return read_kineto(path)

    return reading


def modules(trace: RankTrace) -> list[str]:
    return [trace.text(i) for i in trace.group("gpu").sparse("module").tolist()]


def test_node_graph_and_module_of_each_kernel(read: Any) -> None:
    trace = read(
        kernel(0, **graph(NODE, module_fqn="model.layers.0.mlp", grid=[1, 1, 1])),
        kernel(1, **graph(NODE + 2, name="all_gather")),
        kernel(2, **graph(NODE + 4, name="inner", module_fqn="model.layers.0.norm")),
        kernel(3, grid=[1, 1, 1]),
        kernel(4, **graph(0)),
    )

    gpu = trace.group("gpu")
    assert gpu.graph_node.tolist() == [NODE, NODE + 2, NODE + 4, -1, -1]
    assert gpu.graph.tolist() == [11, 11, 11, -1, 11]
    assert modules(trace) == ["model.layers.0.mlp", "all_gather", "model.layers.0.norm", "", ""]


def test_files_without_graphs_have_no_such_columns(read: Any) -> None:
    gpu = read(kernel(0, grid=[1, 1, 1], name="x"), kernel(1)).group("gpu")

    assert [len(gpu.graph_node), len(gpu.graph), len(gpu.module)] == [0, 0, 0]


@pytest.mark.parametrize("value", ["5", 1.5, True, None, [1], {"a": 1}, -(1 << 70), 1 << 70])
def test_a_node_that_is_no_id_is_missing(read: Any, value: object) -> None:
    trace = read(kernel(0, **graph(value)), kernel(1, **graph(7)))

    assert trace.group("gpu").graph_node.tolist() == [-1, 7]


@pytest.mark.parametrize("value", [3, None, [], "", {"a": "b"}])
def test_a_module_that_is_no_name_is_missing(read: Any, value: object) -> None:
    trace = read(kernel(0, **graph(7, module_fqn=value)), kernel(1, **graph(9, module_fqn="m")))

    assert modules(trace) == ["", "m"]


def test_unsigned_nodes_keep_their_bits(read: Any) -> None:
    trace = read(kernel(0, **graph((1 << 64) - 2)))

    assert trace.group("gpu").graph_node.tolist() == [-2]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=8), st.integers(), st.none()), min_size=1, max_size=4))
def test_any_name_is_read_alike_by_both_decoders(tmp_path_factory: Any, names: list[Any]) -> None:
    path = tmp_path_factory.mktemp("graph") / "trace.json"
    events = [
        kernel(at, **graph(at + 1, name=name, module_fqn=name if at % 2 else "m"))
        for at, name in enumerate(names)
    ]
    path.write_text(json.dumps({"traceEvents": events}, ensure_ascii=bool(len(names) % 2)))

    found = []
    for accelerated in ("0", "1"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CCLTUI_ACCEL", accelerated)
            trace = read_kineto(path)
        found.append((modules(trace), trace.group("gpu").graph_node.tolist()))

    assert found[0] == found[1]
    assert found[0][1] == list(range(1, len(names) + 1))


def test_columns_of_graphs_come_back_from_the_store(tmp_path: Path) -> None:

    (tmp_path / "traces").mkdir()
    path = tmp_path / "traces/rank0_trace.json"
    path.write_text(json.dumps({"traceEvents": [kernel(0, **graph(NODE, module_fqn="m.0"))]}))

    for _ in range(2):
        trace = open_job(tmp_path / "traces", cache_dir=tmp_path / "cache").ranks[0]
        assert trace.group("gpu").graph_node.tolist() == [NODE]
        assert modules(trace) == ["m.0"]
