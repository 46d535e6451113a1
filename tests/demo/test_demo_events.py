"""Events of a rank join each other as in a real file."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from ccltui.demo import LateStart, Spec, build
from ccltui.demo.rank_events import list_text

Event = dict[str, Any]
PAIR = {"tp": 2, "pp": 1, "dp_shard": 1, "steps": 1, "layers": 1, "micro_batches": 1}


def events_of(spec: Spec, rank: int = 0) -> list[Event]:
    events: list[Event] = json.loads(build(spec).files[f"kineto_trace_{rank}.json"])["traceEvents"]
    return events


def of(events: list[Event], cat: str, start: str = "") -> list[Event]:
    return [
        event
        for event in events
        if event.get("cat") == cat and event["ph"] == "X" and event["name"].startswith(start)
    ]


def test_every_piece_of_device_work_has_one_launch_and_one_flow() -> None:
    events = events_of(Spec(steps=1), rank=5)
    launches = Counter(
        event["args"]["correlation"]
        for event in of(events, "cuda_runtime")
        if "Synchronize" not in event["name"]
    )
    starts = Counter(event["id"] for event in events if event["ph"] == "s")
    ends = Counter(event["id"] for event in events if event["ph"] == "f")

    work = [*of(events, "kernel"), *of(events, "gpu_memcpy"), *of(events, "gpu_memset")]
    numbers = Counter(event["args"]["correlation"] for event in work)

    assert max(numbers.values()) == 1
    assert numbers == launches == starts == ends


def test_one_collective_is_seen_six_times() -> None:
    events = events_of(Spec.quiet(**PAIR, world_allreduce=False))

    kernels = of(events, "kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL")
    params = of(events, "cpu_op", "record_param_comms")
    assert len(kernels) == 4
    assert len(of(events, "cpu_op", "c10d::allreduce_")) == 4
    assert len(of(events, "user_annotation", "nccl:all_reduce")) == 4
    assert len(of(events, "gpu_user_annotation", "nccl:all_reduce")) == 4
    names = [(event["args"]["Collective name"], event["args"]["Seq"]) for event in params]
    assert names == [
        ("allreduce", 101),
        ("wait", 101),
        ("allreduce", 102),
        ("wait", 102),
        ("allreduce", 103),
        ("wait", 103),
        ("allreduce", 104),
        ("wait", 104),
    ]


def test_a_kernel_points_to_its_record_param_comms() -> None:
    events = events_of(Spec.quiet(**PAIR))
    params = {event["args"]["External id"]: event for event in of(events, "cpu_op", "record_p")}

    for kernel in of(events, "kernel", "nccl"):
        args, told = kernel["args"], params[kernel["args"]["External id"]]["args"]
        for key in ("Collective name", "Seq", "In msg nelems", "Process Group Ranks"):
            assert args[key] == told[key]


def test_the_marker_stands_on_the_host_and_again_on_the_device() -> None:
    events = events_of(Spec.quiet(**PAIR))

    host = of(events, "user_annotation", "ProfilerStep#10")
    device = of(events, "gpu_user_annotation", "ProfilerStep#10")
    assert (len(host), len(device)) == (1, 1)
    assert device[0]["dur"] < host[0]["dur"]


def test_host_events_nest_on_each_thread() -> None:
    by_thread: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for event in events_of(Spec(steps=2), rank=2):
        if event.get("cat") in ("cpu_op", "user_annotation", "cuda_runtime") and event["ph"] == "X":
            start = round(event["ts"] * 1000)
            by_thread[event["tid"]].append((start, -(start + round(event["dur"] * 1000))))

    assert len(by_thread) == 2
    for intervals in by_thread.values():
        open_ends: list[float] = []
        for start, minus_end in sorted(intervals):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or -minus_end <= open_ends[-1]
            open_ends.append(-minus_end)


def test_p2p_says_who_sends_to_whom() -> None:
    spec = Spec.quiet(tp=1, pp=2, dp_shard=1, steps=1, layers=2, micro_batches=1)

    sender, receiver = (
        of(events_of(spec, rank), "kernel", "ncclDevKernel_Send") for rank in (0, 1)
    )

    told = [
        (event["args"]["Collective name"], event["args"]["Src Rank"], event["args"]["Dst Rank"])
        for event in (*sender, *receiver)
    ]
    assert told == [("send", 0, 1), ("recv", 1, 0), ("recv", 0, 1), ("send", 1, 0)]
    notes = of(events_of(spec, 0), "user_annotation", "nccl:")
    assert [note["name"] for note in notes[:2]] == ["nccl:send 0->1", "nccl:recv 0<-1"]


@pytest.mark.parametrize(
    ("metadata", "on_kernel", "on_host"),
    [
        ("comms_id", {"Collective name", "Seq", "Comms Id"}, {"Seq", "Comms Id"}),
        ("full", {"Collective name", "Seq"}, {"Seq"}),
        ("no_seq", {"Collective name"}, set()),
        ("cpu_side", set(), {"Seq"}),
    ],
)
def test_metadata_levels(metadata: Any, on_kernel: set[str], on_host: set[str]) -> None:
    events = events_of(Spec.quiet(**PAIR, metadata=metadata))
    optional = {"Collective name", "Seq", "Comms Id"}

    kernel = of(events, "kernel", "nccl")[0]
    params = of(events, "cpu_op", "record_param_comms")[0]

    assert set(kernel["args"]) & optional == on_kernel
    assert set(params["args"]) & optional == on_host | {"Collective name"}


def test_names_alone_carry_no_size_and_no_group() -> None:
    document = json.loads(
        build(Spec.quiet(**PAIR, metadata="names_only")).files["kineto_trace_0.json"]
    )
    events = document["traceEvents"]

    assert document["distributedInfo"] == {"backend": "nccl", "rank": 0, "world_size": 2}
    assert not of(events, "cpu_op", "record_param_comms")
    assert not any("Input Dims" in event.get("args", {}) for event in events)


@pytest.mark.parametrize(
    ("library", "arguments", "names"),
    [
        (
            "nccl_old",
            "(ncclDevComm*, unsigned long, ncclWork*)",
            {
                "ncclKernel_AllReduce_RING_LL_Sum___nv_bfloat16",
                "ncclKernel_AllReduce_RING_LL_Sum_float",
                "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
                "ncclKernel_AllGather_RING_LL_Sum_int8_t",
                "ncclKernel_ReduceScatter_RING_LL_Sum___nv_bfloat16",
            },
        ),
        ("rccl", "(ncclDevKernelArgsStorage<4096ul>)", {"ncclDevKernel_Generic_4"}),
    ],
)
def test_kernel_names_of_other_libraries(library: Any, arguments: str, names: set[str]) -> None:
    events = events_of(Spec.quiet(steps=1, library=library))

    found = {event["name"] for event in of(events, "kernel", "nccl")}

    assert found == {name + arguments for name in names}


def test_expert_exchange_is_a_send_recv_kernel_with_split_sizes() -> None:
    spec = Spec.quiet(tp=1, pp=1, dp_shard=2, experts=True, steps=1, layers=1, micro_batches=1)

    kernels = of(events_of(spec), "kernel", "ncclDevKernel_SendRecv")

    assert len(kernels) == 4
    args = kernels[0]["args"]
    assert args["Collective name"] == "all_to_allv"
    assert args["In split size"] == "[4194304, 4194304]"
    assert args["Process Group Description"] == "mesh_ep"


def test_an_orphan_kernel_has_neither_launch_nor_metadata() -> None:
    spec = Spec.quiet(**PAIR, late_starts=(LateStart(rank=0, missing=2, orphans=1),))

    orphan, *others = of(events_of(spec), "kernel", "nccl")

    assert "External id" not in orphan["args"]
    assert "Collective name" not in orphan["args"]
    assert all("Collective name" in other["args"] for other in others)


def test_optional_rows_appear_when_asked_for() -> None:
    plain = events_of(Spec.quiet(**PAIR))
    full = events_of(Spec.quiet(**PAIR, with_python=True, with_sync_rows=True))

    assert not of(plain, "python_function")
    assert not of(plain, "cuda_sync")
    assert [event["name"] for event in of(full, "python_function")] == [
        "train.py(311): <module>",
        "train.py(204): train_step",
        "torch/utils/data/dataloader.py(729): __next__",
    ]
    assert [event["args"]["Python parent id"] for event in of(full, "python_function")] == [
        None,
        1,
        2,
    ]
    assert len(of(full, "cuda_sync")) == 1


def test_long_lists_are_cut_as_the_profiler_cuts_them() -> None:
    assert list_text(()) == "[]"
    assert list_text((0, 1)) == "[0, 1]"
    assert list_text(tuple(range(30))).endswith("28, 29]")
    assert list_text(tuple(range(31))).endswith("28, 29, ...]")
