"""Execution traces of every schema: groups, collectives, steps and products."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from executions import TENSOR, chakra, document, flat, functional, listed_groups
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.columns import ProcessGroup
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.execution_trace import (
    KNOWN,
    ExecutionTrace,
    nodes_of,
    read_execution_trace,
)

TP = ProcessGroup("3", "mesh_tp", (0, 1), 2)


def read(tmp_path: Path, text: str | bytes) -> ExecutionTrace:
    path = tmp_path / "torch_et_0.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_execution_trace(path, shown="torch_et_0.json")


def test_a_flat_call_of_2024(tmp_path: Path) -> None:
    values = [[TENSOR], 337, 93825114103440, 3, "allreduce", [], [], 8]
    types = ["GenericList[Tensor(c10::Half)]", "Int", "Int", "Int", "String", "GenericList[]"]
    nodes = [
        flat(4, "c10d::allreduce_", 7, values=[[TENSOR], "<Object>"], types=[*types[:1], "Object"]),
        flat(5, "record_param_comms", 8, parent=4, values=values, types=types),
    ]

    outer, call = read(tmp_path, document(nodes, "1.0.1")).calls

    assert (call.record_id, call.op, call.seq, call.group_size) == (8, "allreduce", 337, 8)
    assert (call.in_elems, call.dtype) == (2048, "c10::Half")
    assert call.group == ProcessGroup("93825114103440", "", (), 8)
    assert (outer.op, outer.group, outer.group_size) == ("", call.group, 8)


def test_a_flat_wait_and_an_all_to_all_with_splits_of_2023(tmp_path: Path) -> None:
    nodes = [
        flat(4, "record_param_comms", 7, values=[141, 0, 0, "wait", [], []]),
        flat(
            5,
            "record_param_comms",
            8,
            values=[TENSOR, 9, 55, 1, "all_to_allv", [768, 1280], [1024, 1024]],
            types=["Tensor(float)", "Int", "Int", "Int", "String"],
        ),
    ]

    wait, exchange = read(tmp_path, document(nodes, "1.0.1")).calls

    assert (wait.op, wait.group, wait.seq, wait.in_elems) == ("wait", None, 141, -1)
    assert (exchange.in_split, exchange.out_split) == ("[768, 1280]", "[1024, 1024]")
    assert exchange.group == ProcessGroup("55", "", (), -1)


def test_inputs_that_name_their_group_and_its_stride(tmp_path: Path) -> None:
    values = [[TENSOR], 33, ["7", "mesh_dp"], 0, "broadcast", [], [], 1, 2, 4]
    node = chakra(4, "record_param_comms", 9, values=values, types=["GenericList[Tensor(float)]"])

    (call,) = read(tmp_path, document([node], "1.0.3-chakra.0.0.4")).calls

    assert call.group == ProcessGroup("7", "mesh_dp", (1, 3, 5, 7), 4)
    assert (call.op, call.seq, call.group_size) == ("broadcast", 33, 4)


def test_attributes_come_before_inputs(tmp_path: Path) -> None:
    node = chakra(
        4,
        "record_param_comms",
        9,
        values=[[TENSOR], 5, ["3", "mesh_tp"], 0, "old", [], [], 0, 1, 2],
        types=["GenericList[Tensor(float)]"],
        collective_name="all_to_allv",
        dtype="BFloat16",
        in_msg_nelems=64,
        out_msg_nelems=32,
        in_split_size="[40, 24]",
        out_split_size="[16, 16]",
        pg_name="3",
        pg_desc="mesh_tp",
        pg_size=2,
        global_rank_start=0,
        global_rank_stride=1,
    )

    trace = read(tmp_path, document([listed_groups(), node], "1.1.1-chakra.0.0.4"))

    (call,) = trace.calls
    assert (call.op, call.dtype, call.in_elems, call.out_elems) == (
        "all_to_allv",
        "BFloat16",
        64,
        32,
    )
    assert (call.in_split, call.out_split, call.seq) == ("[40, 24]", "[16, 16]", 5)
    assert call.group == TP


def test_the_group_of_all_ranks_is_listed_without_ranks(tmp_path: Path) -> None:
    trace = read(tmp_path, document([listed_groups()], "1.1.0-chakra.0.0.4"))

    assert trace.groups == (ProcessGroup("0", "default_pg", (0, 1, 2, 3), 4), TP)


def test_operators_inside_a_functional_one_have_its_group(tmp_path: Path) -> None:
    trace = read(tmp_path, document([listed_groups(), *functional(4, 5, "3")], KNOWN[-1]))

    assert [(call.record_id, call.group) for call in trace.calls] == [(5, TP), (6, TP), (7, TP)]


def test_an_operator_whose_group_is_an_object_names_none(tmp_path: Path) -> None:
    node = functional(4, 5, "3")[1] | {"ctrl_deps": 2}

    (call,) = read(tmp_path, document([listed_groups(), node], KNOWN[-1])).calls

    assert (call.group, call.in_elems, call.dtype) == (None, 2048, "float")


@pytest.mark.parametrize("build", [flat, chakra], ids=["flat", "chakra"])
def test_steps_and_products_in_order_of_their_numbers(tmp_path: Path, build: Any) -> None:
    nodes = [
        build(9, "aten::mm", 12, shapes=[[8, 4], [4, 2]], values=[TENSOR, TENSOR]),
        build(4, "ProfilerStep#7", 3),
        build(8, "ProfilerStep#8", 11),
        build(5, "aten::addmm", 4, shapes=[[2], [8, 4], [4, 2], []]),
        build(6, "aten::relu", 5, shapes=[[8, 2]]),
    ]

    trace = read(tmp_path, document(nodes, "1.0.1"))

    assert [(step.number, step.record_id, step.dur_us) for step in trace.steps] == [
        (7, 3, -1),
        (8, 11, -1),
    ]
    assert [(one.name, one.shapes) for one in trace.products] == [
        ("aten::addmm", ([2], [8, 4], [4, 2], [])),
        ("aten::mm", ([8, 4], [4, 2])),
    ]
    assert (trace.start_ms, trace.finish_ms) == (1000, 4000)
    assert trace.names[5] == "aten::relu"


def test_nodes_merged_with_kineto_have_times(tmp_path: Path) -> None:
    nodes = [flat(4, "ProfilerStep#7", 3, ts=1694128201426750, dur=2500)]

    (step,) = read(tmp_path, document(nodes, "1.0.1")).steps

    assert (step.start_us, step.dur_us) == (1694128201426750.0, 2500.0)


@pytest.mark.parametrize("schema", KNOWN)
def test_every_known_schema_is_known(tmp_path: Path, schema: str) -> None:
    assert read(tmp_path, document([chakra(4, "aten::mm", 5)], schema)).notes == ()


@pytest.mark.parametrize("schema", ["9.9.9", "", 7])
def test_another_schema_is_read_by_its_form_and_noted(tmp_path: Path, schema: Any) -> None:
    trace = read(tmp_path, document(functional(4, 5, "3"), schema))

    assert len(trace.calls) == 3
    assert [note.code for note in trace.notes] == ["unknown_schema"]


def test_nodes_without_name_or_id_are_counted(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [{"id": 4}, {"name": "aten::mm"}, {"id": "x", "name": "y"}]
    nodes = [*odd, chakra(5, "aten::mm", 6)]

    trace = read(tmp_path, document(nodes, KNOWN[-1]))

    assert [(note.code, note.count) for note in trace.notes] == [("malformed_node", 3)]
    assert len(trace.products) == 1


def test_gzip(tmp_path: Path) -> None:
    text = document(functional(4, 5, "3"), KNOWN[-1]).encode()

    assert read(tmp_path, gzip.compress(text)) == read(tmp_path, text)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"nodes":7}', '{"schema":"1.0.1"}', "\xff", "[" * 5000]
)
def test_what_is_no_execution_trace_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match=r"torch_et_0\.json") as caught:
        read(tmp_path, text.encode("latin-1"))

    assert "\n" not in str(caught.value)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    text = gzip.compress(document(functional(4, 5, "3"), KNOWN[-1]).encode())

    with pytest.raises(TraceError, match=r"torch_et_0\.json"):
        read(tmp_path, text[:-20])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from([flat, chakra]), JSON, JSON, JSON, st.sampled_from(["values", "types"]))
def test_any_values_are_survived(build: Any, one: Any, two: Any, three: Any, member: str) -> None:
    from ccltui.parsers.kineto.execution_trace import calls_of, groups_of

    node = build(
        4, "record_param_comms", 5, **{member: [one, two, three, "x", [], []], "pg_name": one}
    )
    other = build(5, "## process_group:init ##", 6, values=[one, json.dumps(two)], tid=three)
    nodes = nodes_of(document([node, other], "1.0.1").encode(), shown="x").nodes

    calls = calls_of(nodes, groups_of(nodes))

    assert [call.record_id for call in calls] == [5]
