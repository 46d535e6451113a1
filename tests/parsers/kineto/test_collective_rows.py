"""Test collective arguments: of kernels, joined from the call, or computed from shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.kineto.process_groups import ranks_of_text

pytestmark = pytest.mark.usefixtures("decoder")

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STATED = {
    "Collective name": "allreduce",
    "In msg nelems": 1024,
    "Out msg nelems": 2048,
    "Group size": 2,
    "dtype": "BFloat16",
    "In split size": "[4, 4]",
    "Out split size": "[]",
    "Process Group Name": "7",
    "Process Group Description": "mesh_tp",
    "Process Group Ranks": "[0, 1]",
    "Seq": 12,
    "Comms Id": 10159970886766084423,
}


def x(cat: str, name: str, ts: int, dur: int, tid: int, **args: Any) -> dict[str, Any]:
    pid = 0 if cat == "kernel" else 99
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def read(tmp_path: Path, *events: dict[str, Any], **top: Any) -> RankTrace:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**top, "traceEvents": events}))
    return read_kineto(path)


def described(trace: RankTrace, group: Any = "gpu") -> list[tuple[Any, ...]]:
    """(op, elements in and out, dtype, group ranks, Seq) of every event of a group."""
    rows: list[tuple[Any, ...]] = []
    table = trace.collective_args
    for row in trace.group(group).args.tolist():
        if row < 0:
            rows.append(())
            continue
        of_group = int(table.group[row])
        rows.append(
            (
                trace.text(int(table.op[row])),
                int(table.in_elems[row]),
                int(table.out_elems[row]),
                trace.text(int(table.dtype[row])),
                trace.process_groups[of_group].ranks if of_group >= 0 else None,
                int(table.seq[row]),
            )
        )
    return rows


ALLREDUCE = ("allreduce", 1024, 2048, "BFloat16", (0, 1), 12)


def test_arguments_of_kernels_are_read(tmp_path: Path) -> None:
    trace = read(tmp_path, x("kernel", NCCL, 10, 5, 20, **STATED), x("kernel", "gemm", 11, 1, 7))

    assert described(trace) == [ALLREDUCE, ()]
    table = trace.collective_args
    assert trace.text(int(table.in_split[0])) == "[4, 4]"
    assert table.comms_id.tolist() == [10159970886766084423]
    group = trace.process_groups[0]
    assert (group.name, group.description, group.ranks, group.size) == ("7", "mesh_tp", (0, 1), 2)


def test_old_group_id_and_real_lists_are_read(tmp_path: Path) -> None:
    args = {**STATED, "Process Group ID": 3, "Process Group Ranks": [1, 0], "In split size": [4, 4]}
    del args["Process Group Name"]

    trace = read(tmp_path, x("kernel", NCCL, 10, 5, 20, **args))

    assert trace.process_groups[0].name == "3"
    assert trace.process_groups[0].ranks == (1, 0)
    assert trace.text(int(trace.collective_args.in_split[0])) == "[4, 4]"


def test_kernels_are_joined_by_external_id_of_the_call(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 1, 5, 99, **{"External id": 74, **STATED}),
        x("kernel", NCCL, 10, 5, 20, **{"External id": 74, "correlation": 5}),
        x("kernel", "gemm", 10, 5, 7, **{"External id": 74, "correlation": 6}),
    )

    assert described(trace) == [(), ALLREDUCE] or described(trace) == [ALLREDUCE, ()]
    assert sum(bool(row) for row in described(trace)) == 1


def test_external_id_equal_to_the_correlation_is_ignored(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 1, 5, 99, **{"External id": 74, **STATED}),
        x("kernel", NCCL, 10, 5, 20, **{"External id": 74, "correlation": 74}),
    )

    assert described(trace) == [()]


def test_kernels_are_joined_to_the_call_that_encloses_the_launch(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 100, 50, 99, **STATED),
        x("cpu_op", "record_param_comms", 200, 50, 99, **{**STATED, "Seq": 13}),
        x("cuda_runtime", "cudaLaunchKernelExC", 210, 5, 99, correlation=8),
        x("cuda_runtime", "cudaLaunchKernelExC", 260, 5, 99, correlation=9),
        x("cuda_runtime", "cudaLaunchKernelExC", 110, 5, 98, correlation=10),
        x("kernel", NCCL, 300, 5, 20, correlation=8),
        x("kernel", NCCL, 310, 5, 20, correlation=9),
        x("kernel", NCCL, 320, 5, 20, correlation=10),
    )

    assert described(trace) == [("allreduce", 1024, 2048, "BFloat16", (0, 1), 13), (), ()]


def test_waits_give_kernels_no_arguments(tmp_path: Path) -> None:
    wait = {**STATED, "Collective name": "wait", "In msg nelems": 0}
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 100, 50, 99, **{"External id": 3, **wait}),
        x("kernel", NCCL, 300, 5, 20, **{"External id": 3}),
    )

    assert described(trace) == [()]


def test_group_named_by_a_wait_is_merged(tmp_path: Path) -> None:
    wait = {**STATED, "Collective name": "wait", "Process Group Ranks": "[]", "Group size": 1}

    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 100, 5, 99, **STATED),
        x("cpu_op", "record_param_comms", 110, 5, 99, **wait),
    )

    assert [(group.name, group.ranks) for group in trace.process_groups] == [("7", (0, 1))]
    assert trace.collective_args.group.tolist() == [0, 0]


def test_sizes_of_old_traces_come_from_the_annotation_around_the_launch(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[4, 2048, 4096]], "Input type": ["c10::Half"]}
    trace = read(
        tmp_path,
        x("user_annotation", "nccl:all_reduce", 100, 50, 99, **shapes),
        x("cuda_runtime", "cudaLaunchKernelExC", 110, 5, 99, correlation=8),
        x("kernel", NCCL, 300, 5, 20, correlation=8),
    )

    assert described(trace) == [("", 4 * 2048 * 4096, -1, "c10::Half", None, -1)]


@pytest.mark.parametrize(
    ("name", "dims", "types", "inputs", "expected"),
    [
        ("c10d::allreduce_", [[[1024], [76]], []], ["TensorList", ""], [], (1100, "", -1, -1)),
        ("c10d::_allgather_base_", [[32], [8]], ["float", "float"], [], (32, "float", -1, -1)),
        ("gloo:all_reduce", [[2, 3]], ["long int"], [""], (6, "long int", -1, -1)),
        ("c10d::send", [[[1, 32]], []], ["TensorList", ""], ["", "", "1", "0"], (32, "", -1, 1)),
        ("c10d::recv_", [[[5]], []], ["TensorList", ""], ["", "", "2", "0"], (5, "", 2, -1)),
        ("c10d::barrier", [[], []], ["", "Scalar"], [], (-1, "", -1, -1)),
        ("c10d::odd", "no list", None, 5, (-1, "", -1, -1)),
        ("c10d::odd", [[1, "a"]], ["float"], [], (-1, "float", -1, -1)),
    ],
)
def test_sizes_and_peers_from_operator_inputs(
    tmp_path: Path, name: str, dims: Any, types: Any, inputs: Any, expected: tuple[Any, ...]
) -> None:
    args = {"Input Dims": dims, "Input type": types, "Concrete Inputs": inputs}

    trace = read(tmp_path, x("cpu_op", name, 1, 1, 99, **args))

    table = trace.collective_args
    assert (
        int(table.in_elems[0]),
        trace.text(int(table.dtype[0])),
        int(table.src[0]),
        int(table.dst[0]),
    ) == expected


def test_abbreviated_rank_lists_are_completed_from_pg_config(tmp_path: Path) -> None:
    config = [{"pg_name": "7", "pg_desc": "mesh_tp", "pg_size": 40, "ranks": list(range(40))}]
    args = {**STATED, "Process Group Ranks": "[0, 1, 2, ...]", "Group size": 40}

    known = read(
        tmp_path, x("kernel", NCCL, 1, 1, 20, **args), distributedInfo={"pg_config": config}
    )
    unknown = read(tmp_path, x("kernel", NCCL, 1, 1, 20, **args))
    strided = read(
        tmp_path,
        x("kernel", NCCL, 1, 1, 20, **args, **{"Global rank start": 1, "Global rank stride": 2}),
    )

    assert known.process_groups[0].ranks == tuple(range(40))
    assert (unknown.process_groups[0].ranks, unknown.process_groups[0].size) == ((), 40)
    assert strided.process_groups[0].ranks == tuple(range(1, 81, 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[0, 1]", ((0, 1), True)),
        ("[]", ((), True)),
        ("[0, 1, 2, ...]", ((0, 1, 2), False)),
        ("[0, 1, …", ((0, 1), False)),
    ],
)
def test_rank_lists_as_text(text: str, expected: tuple[tuple[int, ...], bool]) -> None:
    assert ranks_of_text(text) == expected


@pytest.mark.parametrize(
    "ranks",
    ["[0, 99999999999999999999]", f"[{'9' * 5000}]", "[0, -1]", [0, 2**70], [-1, 0], [1 << 20]],
)
def test_invalid_ranks_are_ignored(tmp_path: Path, ranks: object) -> None:
    args = {**STATED, "Process Group Ranks": ranks, "Group size": 2**70}
    config = [{"pg_name": "9", "pg_desc": "mesh_pp", "pg_size": 10**30, "ranks": ranks}]

    trace = read(
        tmp_path, x("kernel", NCCL, 10, 5, 20, **args), distributedInfo={"pg_config": config}
    )

    assert [(group.name, group.ranks, group.size) for group in trace.process_groups] == [
        ("7", (), -1),
        ("9", (), -1),
    ]


@pytest.mark.parametrize(
    ("inputs", "size", "splits"),
    [
        (["", "337", "93825114103440", "0", "", "[]", "[]", "8"], 8, ("[]", "[]")),
        (
            ["", "9", "5", "1", "", "[768, 1280]", "[1024, 1024]"],
            -1,
            ("[768, 1280]", "[1024, 1024]"),
        ),
        (["", "", "", "0", "", "[4, 4]", "[4, 4]", "0", "1", "2", "True"], 2, ("[4, 4]", "[4, 4]")),
        (["", "", "", "0", "", "[4, 4]", "[4, 4]", "0", "1"], -1, ("[4, 4]", "[4, 4]")),
        (["", "1", "2", "0", "", "[4]", "", "[4]", "2"], -1, ("", "")),
        (["", 1, "[]", "[]", "8"], -1, ("", "")),
        (["", "1", "2", "0", "", "[]", "[]", "123456789"], -1, ("[]", "[]")),
        ("x", -1, ("", "")),
        (None, -1, ("", "")),
    ],
)
def test_splits_and_size_of_recorded_calls_of_2023(
    tmp_path: Path, inputs: object, size: int, splits: tuple[str, str]
) -> None:
    given = {"Input Dims": [[6]], "Input type": ["float"], "Concrete Inputs": inputs}
    trace = read(tmp_path, x("cpu_op", "record_param_comms", 10, 5, 1, **given))

    table = trace.collective_args
    assert table.group_size.tolist() == [size]
    found = [trace.text(int(column[0])) for column in (table.in_split, table.out_split)]
    assert tuple(found) == splits
    assert table.in_elems.tolist() == [6]


PEER = "Memcpy PtoP (Device -> Device)"


def copied(ts: int, stream: int, correlation: int, name: str = PEER) -> dict[str, Any]:
    event = x("kernel", name, ts, 10, stream, stream=stream, device=0, correlation=correlation)
    return {**event, "cat": "gpu_memcpy"}


def launched(ts: int, correlation: int) -> dict[str, Any]:
    return x("cuda_runtime", "cudaMemcpyBatchAsync", ts, 2, 5, correlation=correlation)


def test_copies_on_a_stream_of_their_own_execute_a_call_without_kernel(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 0, 50, 5, **STATED),
        launched(10, 1),
        launched(20, 2),
        copied(30, 9, 1),
        copied(45, 9, 2),
        x("kernel", "gemm", 31, 40, 7, stream=7, device=0, correlation=3),
    )
    rows = described(trace)
    assert [bool(row) for row in rows] == [True, False, True]  # copy, gemm, copy
    assert rows[0] == rows[2]


def test_copies_that_prepare_a_call_with_a_kernel_stay_copies(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 0, 50, 5, **STATED),
        launched(10, 1),
        launched(20, 2),
        copied(30, 9, 1),
        x("kernel", NCCL, 45, 10, 8, stream=8, device=0, correlation=2),
    )
    assert [bool(row) for row in described(trace)] == [False, True]


def test_copies_on_a_stream_of_computation_stay_copies(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 0, 50, 5, **STATED),
        launched(10, 1),
        copied(30, 9, 1, "Memcpy DtoD (Device -> Device)"),
        x("kernel", "gemm", 45, 10, 9, stream=9, device=0, correlation=3),
    )
    assert [bool(row) for row in described(trace)] == [False, False]


def test_a_copy_in_a_group_of_one_rank_stays_a_copy(tmp_path: Path) -> None:
    alone = {**STATED, "Group size": 1}
    trace = read(
        tmp_path,
        x("cpu_op", "record_param_comms", 0, 50, 5, **alone),
        launched(10, 1),
        copied(30, 9, 1),
    )
    assert [bool(row) for row in described(trace)] == [False]
