"""Traces without kernels: one family of host events represents the collectives."""

from __future__ import annotations

from factories import Coll, Event, job, kernel, rank_trace, step, world

from ccltui.metrics.model.call_families import api_call_times
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace

PARAMS = "record_param_comms"


def gloo_group(*ranks: int, name: str = "0", description: str = "default_pg") -> ProcessGroup:
    return ProcessGroup(name, description, ranks, len(ranks), "cpu:gloo")


def calls_of(trace: RankTrace) -> Calls:
    return View(job(trace)).ranks[0].named_calls


def kinds(calls: Calls) -> list[str]:
    return [TYPES[kind] for kind in calls.kind]


def op(
    name: str, start: float, elems: int, dtype: str = "float", *, src: int = -1, dst: int = -1
) -> Event:
    """An operator: it shows the size of its first tensor, and names no group."""
    return Event(name, start, 5, 1, coll=Coll("", elems, dtype=dtype, group=-1, src=src, dst=dst))


def work(name: str, start: float, dur: float, elems: int, thread: int = 9) -> Event:
    return Event(name, start, dur, thread, coll=Coll("", elems, dtype="float"))


def test_recorded_parameters_have_precedence_and_waits_are_excluded() -> None:
    trace = rank_trace(
        cpu_ops=[
            Event("c10d::allreduce_", 0, 40, 1),
            Event(PARAMS, 5, 30, 1, coll=Coll("allreduce", 8, 8, seq=3)),
            Event(PARAMS, 50, 5, 1, coll=Coll("wait", 0, 0, seq=3)),
        ],
        annotations=[Event("nccl:all_reduce", 6, 20, 1)],
        groups=[world(2)],
    )

    calls = calls_of(trace)

    assert (calls.source, kinds(calls)) == (PARAMS, ["AllReduce"])


def test_a_call_recorded_twice_is_one() -> None:
    trace = rank_trace(
        cpu_ops=[
            Event(PARAMS, 0, 5, 1, coll=Coll("_allgather_base", 8, -1, seq=12)),
            Event(PARAMS, 6, 5, 1, coll=Coll("_allgather_base", -1, 16, seq=12)),
            Event(PARAMS, 20, 5, 1, coll=Coll("_allgather_base", 8, 16, seq=13)),
            # Another thread's sequence is another call.
            Event(PARAMS, 21, 5, 2, coll=Coll("_allgather_base", 8, 16, seq=13)),
        ],
        groups=[world(2)],
    )

    assert calls_of(trace).seq.tolist() == [12, 13, 13]


def test_old_parameters_are_distinguished_from_waits_by_their_contents() -> None:
    trace = rank_trace(
        cpu_ops=[
            Event(PARAMS, 0, 30, 1),
            Event(PARAMS, 40, 5, 1),  # a wait
            Event("c10d::_reduce_scatter_base_", 50, 20, 1),
            Event(PARAMS, 52, 10, 1),
            Event(PARAMS, 80, 5, 1, coll=Coll("", 64)),
        ],
        annotations=[Event("nccl:all_to_all", 3, 20, 1), Event("nccl:all_to_all", 41, 1, 2)],
    )

    calls = calls_of(trace)

    assert calls.start_ns.tolist() == [0, 52_000, 80_000]
    assert kinds(calls) == ["AllToAll", "ReduceScatter", "Other"]


def test_operators_of_one_layer_have_second_precedence() -> None:
    trace = rank_trace(
        cpu_ops=[
            op("_c10d_functional::all_gather_into_tensor", 0, 8),
            op("c10d::_allgather_base_", 1, 32),
            op("_c10d_functional::wait_tensor", 9, 32),
        ],
        groups=[gloo_group(0, 1, 2, 3)],
    )

    calls = calls_of(trace)

    assert (calls.source, kinds(calls)) == ("cpu_op", ["AllGather"])
    # The operator takes its output first: S = Out, 32 floats.
    assert int(calls.message_bytes[0]) == 128


def test_functional_operators_are_used_where_there_are_no_others() -> None:
    trace = rank_trace(
        cpu_ops=[
            op("_c10d_functional::all_reduce", 0, 8),
            op("_c10d_functional::wait_tensor", 9, 8),
        ]
    )

    assert kinds(calls_of(trace)) == ["AllReduce"]


def test_annotations_have_the_lowest_precedence() -> None:
    trace = rank_trace(annotations=[step(1, 0, 99), Event("nccl:all_reduce", 3, 20, 1)])

    calls = calls_of(trace)

    assert (calls.source, kinds(calls), calls.step.tolist()) == ("annotation", ["AllReduce"], [1])


def test_gloo_times_come_from_its_threads_and_types_from_the_operators() -> None:
    # gloo carries out a reduce-scatter as an all-reduce, and says so.
    trace = rank_trace(
        cpu_ops=[
            op("c10d::_reduce_scatter_base_", 10, 16),
            op("c10d::allreduce_", 20, 100, dtype=""),
            op("c10d::_allgather_base_", 30, 64),
        ],
        annotations=[
            work("gloo:all_reduce", 12, 50, 64),
            work("gloo:all_reduce", 62, 70, 100),
            work("gloo:all_gather", 33, 40, 16, thread=8),
        ],
        groups=[gloo_group(0, 1, 2, 3)],
        world_size=4,
    )

    calls = calls_of(trace)

    assert kinds(calls) == ["ReduceScatter", "AllGather", "AllReduce"]
    assert calls.start_ns.tolist() == [12_000, 33_000, 62_000]
    assert calls.dur_ns.tolist() == [50_000, 40_000, 70_000]
    assert calls.in_elems.tolist() == [64, 16, 100]
    assert calls.message_bytes.tolist() == [256, 256, 400]
    assert calls.group.tolist() == [0, 0, 0]  # the only group there is


def test_gloo_work_of_a_call_before_the_window_is_left_out() -> None:
    trace = rank_trace(
        cpu_ops=[op("c10d::allreduce_", 20, 8), op("c10d::allreduce_", 40, 8)],
        annotations=[work("gloo:all_reduce", start, 5, 8) for start in (5, 21, 41)],
    )

    assert calls_of(trace).start_ns.tolist() == [21_000, 41_000]


def test_a_call_whose_work_was_not_recorded_keeps_the_operators_times() -> None:
    trace = rank_trace(
        cpu_ops=[op("c10d::allreduce_", 20, 8), op("c10d::allreduce_", 40, 8)],
        annotations=[work("gloo:all_reduce", 21, 15, 8)],
    )

    assert calls_of(trace).dur_ns.tolist() == [15_000, 5_000]


def test_gloo_beside_computing_kernels_has_no_kernels_of_its_own() -> None:
    trace = rank_trace(
        gpu=[kernel("gemm", 0, 5)],
        cpu_ops=[op("c10d::allreduce_", 20, 8)],
        annotations=[work("gloo:all_reduce", 21, 15, 8)],
    )

    assert calls_of(trace).source == "cpu_op"


def test_operators_get_the_only_possible_group() -> None:
    trace = rank_trace(
        cpu_ops=[
            op("c10d::_allgather_base_", 0, 64),
            op("c10d::_allgather_base_", 10, 32),
            op("c10d::allreduce_", 20, 64),
            op("c10d::send", 30, 8, dst=1),
            op("c10d::recv_", 40, 8, src=1),
        ],
        annotations=[work("gloo:all_gather", 1, 2, 16), work("gloo:all_gather", 11, 2, 16)],
        groups=[
            gloo_group(0, 1, 2, 3),
            gloo_group(0, 1, name="1", description="mesh_tp"),
            gloo_group(0, 2, name="2", description="mesh_pp"),
            gloo_group(0, 2, name="9", description="mesh_pp"),
        ],
        world_size=4,
    )

    calls = calls_of(trace)

    # 64/16 ranks: only the world has four; 32/16: three groups have two; the all-reduce tells
    # nothing; transfers belong to the pipeline, and count their peer inside its group.
    assert calls.group.tolist() == [0, -1, -1, 2, 2]
    assert calls.dst.tolist() == [-1, -1, -1, 2, -1]
    assert calls.src.tolist() == [-1, -1, -1, -1, 2]


def test_api_calls_are_none_where_nothing_is_recorded() -> None:
    assert list(api_call_times([rank_trace(gpu=[kernel("gemm", 0, 1)])])) == [None]


def test_api_calls_of_ranks_in_a_row_are_those_of_each_alone() -> None:
    def records(late_us: float, *ops: str) -> RankTrace:
        rows = [
            Event("record_param_comms", late_us + 10 * at, 5, 1, Coll(op, seq=at // 2))
            for at, op in enumerate(ops)
        ]
        return rank_trace(cpu_ops=rows, groups=[world(2)])

    same = ("allreduce", "allreduce", "wait", "allgather")
    traces = [
        records(0, *same),
        records(7, *same),
        rank_trace(gpu=[kernel("gemm", 0, 1)]),
        records(3, *same[::-1]),
        records(4, "wait", *same),
        records(9, *same),
    ]

    together = [None if one is None else one.tolist() for one in api_call_times(traces)]

    alone = [next(api_call_times([trace])) for trace in traces]
    assert together == [None if one is None else one.tolist() for one in alone]
    assert [None if one is None else len(one) for one in together] == [2, 2, None, 2, 3, 2]


def test_a_rank_without_events_has_no_calls() -> None:
    calls = calls_of(rank_trace(cpu_ops=[Event("aten::mm", 0, 5, 1)]))

    assert len(calls) == 0
