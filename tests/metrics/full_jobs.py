"""Jobs that hold something for every metric of traces; the properties of all metrics use them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from factories import Coll, Event, allreduce, card, copy, job, launch, rank_trace, step, world
from msgspec.structs import replace

from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import Device, ProcessGroup, RankTrace

RANKS = 4
TRAINING = {
    "phase": "training",
    "num_params": 10_000,
    "num_params_embedding": 100,
    "num_layers": 2,
    "num_heads": 2,
    "head_dim": 4,
    "batch_size": 4,
    "batch_size_scope": "global",
    "seq_len": 16,
    "precision": "bf16",
    "total_count": RANKS,
    "tp": RANKS,
}
SERVING = {**TRAINING, "phase": "inference"}
SHAPES = "[[64, 32], [32, 16]]"
_NODE: dict[str, Any] = {"graph_node": 7, "graph": 3, "module": "layers.0.mm"}
"""The product is the only node of a graph, replayed once a step."""
_A100 = Device(0, "NVIDIA A100-SXM4-40GB", num_sms=108)
_GROUPS = (
    world(RANKS),
    ProcessGroup("1", "mesh_tp", tuple(range(RANKS)), RANKS),
    ProcessGroup("2", "mesh_ep", tuple(range(RANKS)), RANKS),
    ProcessGroup("3", "mesh_pp", tuple(range(RANKS)), RANKS),
)


def trained(rank: int, scale: float = 1.0) -> RankTrace:
    """Three steps: unequal work, two reductions, two exchanges of tokens, a copy, late launches.

    The product and the copy are launched in a range of the user.
    """
    gpu, runtime, operators, marks = [], [], [], []
    for i in range(3):
        at = 1000.0 * i
        gpu += [*_work(at, rank, i), *_talk(at, rank, i)]
        runtime += [launch(20 * i + k, at + t) for k, t in ((1, 5), (2, 6), (3, 7), (4, 445))]
        operators += [
            Event("aten::mm", at + 4, 3, 1, shapes=SHAPES),
            Event("moe::router_topk", at + 440, 8, 1),
        ]
        marks += [step(i, at, 900), Event("forward", at + 2, 10, 1)]
    return _scaled(
        scale,
        rank,
        gpu=gpu,
        runtime=runtime,
        cpu_ops=operators,
        annotations=marks,
    )


def _work(at: float, rank: int, i: int) -> list[Event]:
    work = 100 + 40 * rank + 10 * i
    gemm = Event("ampere_sgemm", at + 10, work, 7, None, 20 * i + 1)
    small = Event("void elementwise_kernel<int>(int)", at + 470, 20, 7, None, 20 * i + 4)
    return [
        replace(gemm, blocks_per_sm=4.0, occupancy_pct=50.0, **_NODE),
        replace(copy(at + 420, 15), correlation=20 * i + 2),
        replace(small, blocks_per_sm=0.25, occupancy_pct=25.0),
    ]


def _talk(at: float, rank: int, i: int) -> list[Event]:
    work = 100 + 40 * rank + 10 * i
    reductions = [
        Coll("allreduce", n, n, "Float", 1, seq=2 * i + j) for j, n in ((0, 1000), (1, 9))
    ]
    exchanges = [
        Coll(
            "all_to_allv",
            sum(split),
            sum(split),
            "BFloat16",
            2,
            seq=2 * i + j,
            in_split=str(split),
            out_split=str(split),
        )
        for j, split in enumerate(_splits(rank, i))
    ]
    end = [10.0 + 5 * i, 20.0 + 5 * i]
    return [
        allreduce(at + 20 + work, 380 - work, reductions[0]),
        allreduce(at + 500 + 25 * rank, 100 - 25 * rank, reductions[1]),
        *(
            Event("ncclDevKernel_SendRecv(a)", at + 650 + 100 * j, end[j], 21, one)
            for j, one in enumerate(exchanges)
        ),
    ]


def _splits(rank: int, i: int) -> list[list[int]]:
    """Tokens to each rank, and the results back: ten thousands of elements, more every step."""
    first = [10_000 * (i + 1) * (1 + (rank + k) % 2) for k in range(RANKS)]
    return [first, [2 * n for n in first]]


def _scaled(scale: float, rank: int, **groups: Sequence[Event]) -> RankTrace:
    slow = {
        name: [replace(e, start_us=e.start_us * scale, dur_us=e.dur_us * scale) for e in events]
        for name, events in groups.items()
    }
    return rank_trace(
        rank,
        gpu=slow["gpu"],
        runtime=slow.get("runtime", ()),
        cpu_ops=slow.get("cpu_ops", ()),
        annotations=slow["annotations"],
        groups=_GROUPS,
        world_size=RANKS,
        devices=[_A100],
    )


def served(rank: int, scale: float = 1.0) -> RankTrace:
    """A prefill and two decodes of an inference server."""
    marks = [
        Event("execute_context_1(8_64)_generation_0(0)", 0, 90, 1),
        Event("execute_context_0(0)_generation_4(4_64)", 100, 40, 1),
        Event("execute_context_0(0)_generation_4(4_68)", 150, 40, 1),
    ]
    gpu = [Event("ampere_sgemm", at + 5 + rank, 30, 7, None, i) for i, at in ((1, 0), (2, 100))]
    return _scaled(scale, rank, gpu=gpu, runtime=[launch(1, 2), launch(2, 102)], annotations=marks)


def pipelined(rank: int, scale: float = 1.0) -> RankTrace:
    """Two steps of a pipeline of four stages: each receives, computes and sends."""
    gpu, marks = [], []
    for i in range(2):
        at = 1000.0 * i
        begin = at + 100 * rank
        if rank:
            gpu.append(_transfer("recv", at + 5, begin + 5, src=rank - 1))
        gpu.append(Event("ampere_sgemm", begin + 10, 80, 7, None))
        if rank < RANKS - 1:
            gpu.append(_transfer("send", begin + 92, begin + 104, dst=rank + 1))
        marks.append(step(i, at, 900))
    return _scaled(scale, rank, gpu=gpu, annotations=marks)


def _transfer(operation: str, start: float, end: float, *, src: int = -1, dst: int = -1) -> Event:
    coll = Coll(operation, 4096, 4096, "BFloat16", 3, src=src, dst=dst)
    return Event("ncclDevKernel_SendRecv(a)", start, end - start, 22, coll)


Build = Callable[[int, float], RankTrace]
JOBS: dict[str, tuple[Build, dict[str, object]]] = {
    "training": (trained, {**TRAINING}),
    "serving": (served, {**SERVING}),
    "pipelined": (pipelined, {**TRAINING, "tp": 1, "pp": RANKS}),
}


@functools.cache  # all metrics ask one view: what they share is computed once
def view_of(name: str, *, scale: float = 1.0, ranks: Sequence[int] = range(RANKS)) -> View:
    """A job by its name, ``scale`` times as slow; the run to compare with is as slow."""
    build, stated = JOBS[name]
    options = ViewOptions(overrides={"against": f"/{scale}"})
    return View(job(*(build(rank, scale) for rank in ranks), card=card(**stated)), options)
