"""Device work that together executes one collective."""

from __future__ import annotations

from factories import Coll, Event, allreduce, job, kernel, rank_trace, world

from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

NOTIFY = "void deep_ep::intranode::notify_dispatch<8>(int const*)"
DISPATCH = "void deep_ep::intranode::dispatch<8, 768>(int4*)"
COMBINE = "void deep_ep::intranode::combine<8, 768>(int4*)"


def peer_copy(start_us: float, dur_us: float, coll: Coll | None, stream: int = 30) -> Event:
    name = "Memcpy PtoP (Device -> Device)"
    return Event(name, start_us, dur_us, stream, coll, category="gpu_memcpy", bytes=4096)


def calls(trace: RankTrace) -> list[tuple[str, int, int]]:
    """Type, start and duration in µs of each call."""
    found = View(job(trace)).ranks[0].named_calls
    return [
        (TYPES[kind], start // 1000, dur // 1000)
        for kind, start, dur in zip(
            found.kind.tolist(), found.start_ns.tolist(), found.dur_ns.tolist(), strict=True
        )
    ]


def test_a_dispatch_and_the_exchange_of_its_sizes_are_one_call() -> None:
    trace = rank_trace(gpu=[kernel(NOTIFY, 0, 5), kernel(DISPATCH, 7, 20), kernel(COMBINE, 40, 10)])
    assert calls(trace) == [("AllToAll", 0, 27), ("AllToAll", 40, 10)]


def test_an_exchange_of_sizes_without_a_dispatch_is_a_call_of_its_own() -> None:
    apart = rank_trace(
        gpu=[kernel(NOTIFY, 0, 5), kernel(COMBINE, 7, 20), kernel(DISPATCH, 30, 5, stream=8)]
    )
    assert calls(apart) == [("AllToAll", 0, 5), ("AllToAll", 7, 20), ("AllToAll", 30, 5)]


def test_copies_of_one_numbered_call_are_one_call() -> None:
    gathered = [Coll("_allgather_base", 512, 1024, group_size=2, seq=k) for k in (1, 2)]
    gpu = [
        peer_copy(0, 10, gathered[0]),
        peer_copy(12, 8, gathered[0]),
        peer_copy(40, 10, gathered[1]),
        peer_copy(60, 5, None),  # of no collective
    ]
    # the builder gives each event a row of its own; the two copies of one call share theirs
    trace = rank_trace(gpu=gpu, groups=[world(2)])
    trace.group("gpu").args[1] = trace.group("gpu").args[0]

    assert calls(trace) == [("AllGather", 0, 20), ("AllGather", 40, 10)]


def test_a_kernel_of_another_stream_does_not_divide_the_copies_of_a_call() -> None:
    gathered = [Coll("_allgather_base", 512, 1024, group_size=2, seq=k) for k in (1, 3)]
    scattered = Coll("_reduce_scatter_base", 1024, 512, group_size=2, seq=2)
    gpu = [
        peer_copy(0, 10, gathered[0]),
        kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(int)", 5, 50, 7, scattered),
        peer_copy(12, 8, gathered[0]),
        peer_copy(40, 10, gathered[1]),
        peer_copy(52, 10, gathered[1]),
    ]
    trace = rank_trace(gpu=gpu, groups=[world(2)])
    args = trace.group("gpu").args
    args[2], args[4] = args[0], args[3]

    assert calls(trace) == [("AllGather", 0, 20), ("ReduceScatter", 5, 50), ("AllGather", 40, 22)]


def moe_rank(rank: int, late_us: float) -> RankTrace:
    """NCCL with metadata, and exchanges of tokens in which a rank waits for the other."""
    gpu = [kernel("gemm", 0, 100 + 300 * late_us)]
    for k in range(6):
        base = 1_000.0 * k + 200
        gpu += [
            kernel(DISPATCH, base + late_us, 150 - late_us),
            kernel(COMBINE, base + 300, 40),
            allreduce(base + 500, 50, Coll("allreduce", 8, 8, group_size=2, seq=k)),
        ]
    return rank_trace(rank, gpu=gpu[1:], groups=[world(2)])


def test_exchanges_of_tokens_have_a_group_and_a_lag_of_their_own() -> None:
    view = View(job(moe_rank(0, 0), moe_rank(1, 90)))

    kinds = [{TYPES[kind] for kind in match.kind.tolist()} for match in view.matches.groups]
    assert sorted(map(sorted, kinds)) == [["AllReduce"], ["AllToAll"]]
    exchanges = next(m for m in view.matches.groups if TYPES[m.kind[0]] == "AllToAll")
    assert len(exchanges.kind) == 12
    assert bool(exchanges.complete.all())
    assert view.matches.ungrouped == 0


def test_kernels_of_two_libraries_are_never_one_collective() -> None:
    def rank(number: int) -> RankTrace:
        first = "void vllm::cross_device_reduce_1stage<float, 2>(int)"
        gpu = [kernel(first, 0, 10), allreduce(20, 10, stream=7), kernel(first, 40, 10)]
        return rank_trace(number, gpu=gpu if number else gpu[1:])

    view = View(job(rank(0), rank(1)))

    for match in view.matches.groups:
        names = {
            view.ranks[member].named_calls.library[row]
            for member in (0, 1)
            for row in match.rows[:, member].tolist()
            if row >= 0
        }
        assert len(names) == 1
