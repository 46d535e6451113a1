"""Collectives of a rank from one family of events: type, group, size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from factories import Coll, Event, allreduce, job, kernel, launch, rank_trace, step, world
from msgspec.structs import replace

from ccltui.metrics.model import calls as listing
from ccltui.metrics.model.calls import DTYPES, Calls, KnownCalls, dtype_index
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def calls_of(trace: RankTrace) -> Calls:
    return View(job(trace)).ranks[0].named_calls


def kinds(calls: Calls) -> list[str]:
    return [TYPES[kind] for kind in calls.kind]


def sized(op: str, in_elems: int, out_elems: int, **fields: object) -> tuple[int, int]:
    """Message and wire bytes of one call on a group of four, in BFloat16."""
    coll = Coll(op, in_elems, out_elems, "BFloat16", **fields)  # type: ignore[arg-type]
    calls = calls_of(
        rank_trace(0, gpu=[kernel(SENDRECV, 0, 1, coll=coll)], groups=[world(4)], world_size=4)
    )
    return int(calls.message_bytes[0]), int(calls.wire_bytes[0])


def test_one_collective_with_its_five_events_is_one_call() -> None:
    coll = Coll("allreduce", 1024, 1024, seq=7, comms_id=2**63 + 1)
    trace = rank_trace(
        0,
        cpu_ops=[
            Event("c10d::allreduce_", 0, 40, 1, coll=Coll(op="", in_elems=1024)),
            Event("record_param_comms", 5, 30, 1, coll=coll),
        ],
        annotations=[step(5, 0, 1000), Event("nccl:all_reduce", 6, 20, 1)],
        gpu_annotations=[Event("nccl:all_reduce", 100, 200, 20)],
        runtime=[launch(9, 10)],
        gpu=[
            Event(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)",
                100,
                200,
                20,
                coll=coll,
                correlation=9,
            )
        ],
        groups=[world(2)],
        world_size=2,
    )

    calls = calls_of(trace)

    assert (calls.source, len(calls), kinds(calls)) == ("kernel", 1, ["AllReduce"])
    assert (int(calls.start_ns[0]), int(calls.dur_ns[0])) == (100_000, 200_000)
    assert (int(calls.seq[0]), int(calls.comms_id[0])) == (7, 2**63 + 1)
    assert (int(calls.step[0]), int(calls.group[0])) == (5, 0)
    assert DTYPES[calls.dtype[0]] == "Float"
    assert (int(calls.message_bytes[0]), int(calls.wire_bytes[0])) == (4096, 4096)
    assert bool(calls.has_metadata[0])


def test_the_name_in_metadata_has_precedence_over_that_of_the_kernel() -> None:
    calls = calls_of(
        rank_trace(
            gpu=[
                kernel(SENDRECV, 0, 1, coll=Coll("all_to_allv")),
                kernel(SENDRECV, 1, 1, coll=Coll("send")),
                kernel("ncclDevKernel_Generic(int)", 2, 1, coll=Coll("broadcast")),
                kernel("ncclDevKernel_Generic(int)", 3, 1),
                kernel(SENDRECV, 4, 1),
            ],
            groups=[world(2)],
        )
    )

    assert kinds(calls) == ["AllToAll", "Send", "Broadcast", "Generic", "SendRecv"]
    assert calls.has_metadata.tolist() == [True, True, True, False, False]
    assert calls.message_bytes[3:].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("op", "in_elems", "out_elems", "message", "wire"),
    [
        ("allreduce", 1000, 1000, 2000, 3000),  # 2 (n-1)/n of S, n = 4
        ("_reduce_scatter_base", 1000, 250, 2000, 1500),  # S = In
        ("_allgather_base", 250, 1000, 2000, 1500),  # S = Out
        ("all_to_allv", 1000, 900, 2000, 1500),
        ("broadcast", 1000, 1000, 2000, 2000),
        ("reduce", 1000, 1000, 2000, 2000),
        ("gather", 250, 0, 2000, 1500),  # total over ranks, on a rank that is not the root
        ("scatter", 0, 250, 2000, 1500),
        ("send", 1000, 1000, 2000, 2000),
        ("recv", 0, 1000, 2000, 2000),
    ],
)
def test_message_and_wire_bytes(
    op: str, in_elems: int, out_elems: int, message: int, wire: int
) -> None:
    assert sized(op, in_elems, out_elems) == (message, wire)


def test_wire_bytes_use_the_size_of_the_group_not_of_the_world() -> None:
    pair = ProcessGroup("3", "mesh_tp", (0, 1), 2)
    coll = Coll("allreduce", 1000, 1000)
    calls = calls_of(rank_trace(0, gpu=[allreduce(0, 1, coll)], groups=[pair], world_size=8))

    assert int(calls.wire_bytes[0]) == 4000  # 2 (2-1)/2 of 4000


def test_an_unknown_dtype_leaves_the_size_unknown() -> None:
    coll = Coll("_allgather_base", 250, 1000, dtype="Mystery")
    calls = calls_of(rank_trace(0, gpu=[kernel(SENDRECV, 0, 1, coll=coll)], groups=[world(4)]))

    assert (int(calls.message_bytes[0]), int(calls.wire_bytes[0])) == (-1, -1)


def test_dtype_from_the_kernel_of_a_reduction_where_the_operator_has_none() -> None:
    # An old trace: sizes from the operator's tensor list, no dtype, no operation.
    name = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*)"
    calls = calls_of(rank_trace(gpu=[kernel(name, 0, 1, coll=Coll("", 1000, dtype=""))]))

    assert int(calls.message_bytes[0]) == 2000
    assert not calls.has_metadata[0]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Float", "Float"),
        ("float", "Float"),
        ("c10::Half", "Half"),
        ("c10::BFloat16", "BFloat16"),
        ("long int", "Long"),
        ("unsigned char", "Byte"),
        ("signed char", "Char"),
        ("c10::complex<double>", "ComplexDouble"),
        ("Float8_e4m3fn", "Float8"),
        ("c10::Float8_e5m2", "Float8"),
    ],
)
def test_dtypes_in_all_spellings(spelling: str, name: str) -> None:
    assert DTYPES[dtype_index(spelling)] == name


def test_an_unknown_spelling_is_missing() -> None:
    assert dtype_index("TensorList") == -1


def test_a_device_without_collectives_has_none() -> None:
    # The operators are not asked where kernels were recorded.
    trace = rank_trace(gpu=[kernel("gemm", 0, 1)], cpu_ops=[Event("c10d::allreduce_", 0, 1, 1)])

    calls = calls_of(trace)

    assert (calls.source, len(calls)) == ("kernel", 0)


def test_rows_index_the_events() -> None:
    trace = rank_trace(gpu=[kernel("gemm", 0, 1), allreduce(1, 1), allreduce(3, 1)])

    calls = calls_of(trace)

    assert (calls.event_group, calls.rows.numbers.tolist()) == ("gpu", [1, 2])
    assert calls.take([1]).rows.numbers.tolist() == [2]  # type: ignore[arg-type]
    assert calls.end_ns.tolist() == [2000, 4000]


@pytest.mark.parametrize("op", ["allreduce", "_allgather_base", "_reduce_scatter_base", "send"])
@pytest.mark.parametrize("dtype", ["", "BFloat16", "bytes"])
def test_columns_of_one_value_give_the_calls_of_plain_ones(op: str, dtype: str) -> None:
    """As in a store, whose columns of one value are views of it."""
    coll = Coll(op, 1024, 4096, dtype)
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)"
    trace = rank_trace(
        gpu=[kernel(name, 10 * i, 5, coll=coll) for i in range(4)], groups=[world(4)], world_size=4
    )
    stored = replace(
        trace,
        events={group: _of_one_value(rows) for group, rows in trace.events.items()},
        collective_args=_of_one_value(trace.collective_args),
    )

    plain, found = calls_of(trace), calls_of(stored)

    for column in plain.__struct_fields__:
        one, other = getattr(plain, column), getattr(found, column)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, column
            assert one.tolist() == other.tolist(), column


def _of_one_value(table: Any) -> Any:
    """Return a table of columns with each column of one value as a view of it."""
    columns = {name: getattr(table, name) for name, _ in type(table).COLUMNS}
    for name, column in columns.items():
        if len(column) and (column == column[0]).all():
            columns[name] = np.broadcast_to(column[:1], column.shape)
    return type(table)(**columns)


def many_calls(late_us: int, *, moved: int = 0) -> RankTrace:
    """Three hundred collectives between products, of which ``moved`` - 1 lie after all of them."""
    names = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", SENDRECV)
    gpu = []
    for i in range(300):
        coll = Coll("allreduce", 1024 + i % 3, 1024 + i % 3, "Float", seq=i)
        at = 10 * i if i >= moved or not i else 10 * (i + 301)
        gpu += [
            kernel("gemm", at + late_us, 2),
            kernel(names[i % 2], 10 * i + 4 + late_us, 3 + i % 5, coll=coll),
        ]
    marks = [step(0, 0, 1000), step(1, 1000, 9000)]
    return rank_trace(0, gpu=gpu, annotations=marks, groups=[world(2)], world_size=2)


def known_and_listed(first: RankTrace, second: RankTrace) -> tuple[Calls | None, Calls]:
    """Calls of the second trace by those of the first, and as they are listed."""
    lists, group_index = [], np.zeros(1, np.int32)
    for trace in (first, second):
        facts = RankFacts(trace)
        given = {"work": facts.work, "classes": facts.classes, "group_index": group_index}
        groups = View(job(trace)).facts.stated_groups
        lists.append((given, listing.calls_of(trace, groups=groups, **given)))  # type: ignore[arg-type]
    (given, calls), (others, listed) = lists
    known = KnownCalls.of(first, calls, given["work"], given["classes"], group_index)  # type: ignore[arg-type]
    assert known is not None
    return known.of_rank(second, **others), listed  # type: ignore[arg-type]


@pytest.mark.parametrize("moved", [0, 40])
@pytest.mark.parametrize("late_us", [0, 7, 990])
def test_calls_of_a_rank_with_the_same_work_follow_from_those_of_another(
    late_us: int, moved: int
) -> None:
    found, listed = known_and_listed(many_calls(0), many_calls(late_us, moved=moved))

    assert found is not None
    assert (found.source, found.event_group) == (listed.source, listed.event_group)
    assert found.rows.numbers.tolist() == listed.rows.numbers.tolist()
    for column in listed.__struct_fields__:
        one, other = getattr(found, column), getattr(listed, column)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype, column
            assert one.tolist() == other.tolist(), column


@pytest.mark.parametrize("column", ["name", "category", "track", "args"])
def test_calls_of_other_kernels_are_listed_anew(column: str) -> None:
    trace = many_calls(7)
    gpu = trace.group("gpu")
    changed = np.array(getattr(gpu, column))
    changed[1] = changed[3] if column in ("name", "args") else changed[1] + 1
    columns = {name: getattr(gpu, name) for name, _ in type(gpu).COLUMNS} | {column: changed}
    other = replace(trace, events={**trace.events, "gpu": type(gpu)(**columns)})

    assert known_and_listed(many_calls(0), other)[0] is None


@pytest.mark.parametrize("column", listing._STATED)
def test_calls_with_other_metadata_are_listed_anew(column: str) -> None:
    trace = many_calls(7)
    table = trace.collective_args
    changed = np.array(getattr(table, column))
    changed[5] = 0 if changed[5] else 1
    columns = {name: getattr(table, name) for name, _ in type(table).COLUMNS} | {column: changed}
    other = replace(trace, collective_args=type(table)(**columns))

    known = KnownCalls.of(*known_inputs(many_calls(0)))
    assert known is not None
    facts = RankFacts(other)
    index = np.zeros(1, np.int32)
    assert known.of_rank(other, work=facts.work, classes=facts.classes, group_index=index) is None


def known_inputs(trace: RankTrace) -> tuple[RankTrace, Calls, Any, Any, Any]:
    facts, index = RankFacts(trace), np.zeros(1, np.int32)
    groups = View(job(trace)).facts.stated_groups
    found = listing.calls_of(
        trace, work=facts.work, classes=facts.classes, group_index=index, groups=groups
    )
    return trace, found, facts.work, facts.classes, index


def test_calls_of_a_rank_with_other_names_or_groups_are_listed_anew() -> None:
    known = KnownCalls.of(*known_inputs(many_calls(0)))
    assert known is not None
    trace = many_calls(7)
    facts, index = RankFacts(trace), np.zeros(1, np.int32)
    given = {"work": facts.work, "classes": facts.classes}

    assert known.of_rank(trace, **given, group_index=index) is not None  # type: ignore[arg-type]
    assert known.of_rank(trace, **given, group_index=index + 1) is None  # type: ignore[arg-type]
    texts = [text.replace("RING", "TREE") for text in trace.strings]
    renamed = replace(trace, strings=type(trace.strings).of(texts))
    assert known.of_rank(renamed, **given, group_index=index) is None  # type: ignore[arg-type]


def test_few_calls_and_calls_without_a_group_are_not_kept_for_other_ranks() -> None:
    trace, calls, work, classes, index = known_inputs(many_calls(0))

    assert KnownCalls.of(trace, calls.take(np.arange(200)), work, classes, index) is None
    assert KnownCalls.of(trace, calls, work, classes, np.full(1, -1, np.int32)) is None
