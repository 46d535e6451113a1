"""Write stores of jobs of a thousand ranks, made from the columns of one rank.

A thousand traces of text are gigabytes; what follows the reading needs the columns alone. One rank
is written as text and read; its columns are stored once for each rank, with arrivals, clocks and
groups of that rank. The trace files beside the store hold no more than what identifies them.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import structs

from bench.rank_growth import Shape
from ccltui.parsers.columns import Events, ProcessGroup, RankTrace
from ccltui.parsers.kineto import PARSER_VERSION
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.column_store import Store

STEPS: Final = 10
RANKS_A_HOST: Final = 8
_PERIOD_US: Final = 1000  # of one collective with the work before it
_COMPUTE_US: Final = 600
_END_US: Final = 940
_EARLIEST_US: Final = 620
_SPREAD_NS: Final = 60_000  # of arrivals
_LATE_NS: Final = 150_000  # that the straggler arrives later
_STRAGGLER: Final = 3
_EIGHT: Final = "1"
_NAMES: Final = {"world": ("0", "default_pg"), "eights": (_EIGHT, "mesh_tp")}


def write_job(directory: Path, cache: Path, ranks: int, collectives: int, shape: Shape) -> int:
    """Write the files of a job and its store; return the number of its events.

    Args:
        directory: For the trace files, which are stubs.
        cache: The store.
        ranks: Number of ranks, a multiple of eight.
        collectives: Number of collectives of a rank, a multiple of ``STEPS``.
        shape: All collectives on one group of all ranks, or all but one in a step on groups of
            eight.

    Returns:
        Number of events of all ranks.
    """
    directory.mkdir(parents=True, exist_ok=True)
    template = _template(collectives, shape)
    store = Store(cache, lasts=False)
    events = 0
    for rank in range(ranks):
        path = directory / f"rank{rank:05d}.json"
        path.write_text(_text(_header(rank, ranks, shape), []))
        trace = _of_rank(template, rank, ranks, shape)
        store.write(store.key(path, PARSER_VERSION), trace)
        events += sum(map(len, trace.events.values()))
    return events


def _template(collectives: int, shape: Shape) -> RankTrace:
    """Columns of rank 0, read from text."""
    with tempfile.TemporaryDirectory(prefix="ccltui-bench-") as folder:
        path = Path(folder) / "rank.json"
        path.write_text(_text(_header(0, RANKS_A_HOST, shape), _events(collectives, shape)))
        return read_kineto(path)


def _text(header: dict[str, Any], events: list[dict[str, Any]]) -> str:
    return json.dumps({**header, "traceEvents": events}, separators=(",", ":"))


def _header(rank: int, ranks: int, shape: Shape) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936}
        ],
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": ranks,
            "pg_config": [
                {
                    "pg_name": group.name,
                    "pg_desc": group.description,
                    "pg_size": group.size,
                    "ranks": group.ranks,
                    "backend_config": "cuda:nccl",
                }
                for group in _groups(rank, ranks, shape)
            ],
        },
        "hostName": f"node{rank // RANKS_A_HOST:04d}",
    }


def _groups(rank: int, ranks: int, shape: Shape) -> tuple[ProcessGroup, ...]:
    world = ProcessGroup("0", "default_pg", tuple(range(ranks)), ranks, "cuda:nccl")
    if shape == "world":
        return (world,)
    first = rank // 8 * 8
    name = str(1 + first // 8)
    return (world, ProcessGroup(name, "mesh_tp", tuple(range(first, first + 8)), 8, "cuda:nccl"))


def _events(collectives: int, shape: Shape) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    a_step = collectives // STEPS
    for number in range(collectives):
        begin = 1e6 + number * _PERIOD_US
        is_first = number % a_step == 0
        if is_first:
            name = f"ProfilerStep#{10 + number // a_step}"
            rows.append(_row("user_annotation", name, begin, a_step * _PERIOD_US - 2, 0))
        rows += _compute(number, begin) + _collective(number, begin, shape, on_world=is_first)
    return rows


def _row(category: str, name: str, start: float, length: float, number: int, **args: Any) -> Any:
    """Return an event of the host, or of the device where ``args`` names a stream."""
    place = {"pid": 0, "tid": args["stream"]} if "stream" in args else {"pid": 400, "tid": 400}
    said = {"External id": number, **args} if number else args
    return {
        "ph": "X", "cat": category, "name": name, **place, "ts": start, "dur": length, "args": said
    }  # fmt: skip


def _compute(number: int, begin: float) -> list[dict[str, Any]]:
    outer, link = 2 * number + 1, 2 * number + 100_001
    return [
        _row("cpu_op", "aten::mm", begin + 2, 8, outer),
        _row("cuda_runtime", "cudaLaunchKernel", begin + 4, 4, outer, correlation=link),
        _row(
            "kernel", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas",
            begin + 10, _COMPUTE_US, outer, stream=7, device=0, correlation=link,
        ),
    ]  # fmt: skip


def _collective(number: int, begin: float, shape: Shape, *, on_world: bool) -> list[dict[str, Any]]:
    outer, link = 2 * number + 2, 2 * number + 100_002
    name, text = _NAMES["world" if on_world else shape]
    said = {
        "Collective name": "allreduce",
        "In msg nelems": 1 << 22,
        "Out msg nelems": 1 << 22,
        "Group size": 8,
        "dtype": "BFloat16",
        "Process Group Name": name,
        "Process Group Description": text,
        "Seq": number + 1,
    }
    return [
        _row("cpu_op", "record_param_comms", begin + 14, 12, outer, **said),
        _row("cuda_runtime", "cudaLaunchKernel", begin + 18, 4, outer, correlation=link),
        _row(
            "kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            begin + _EARLIEST_US, _END_US - _EARLIEST_US, outer,
            stream=20, device=0, correlation=link, **said,
        ),
    ]  # fmt: skip


def _of_rank(template: RankTrace, rank: int, ranks: int, shape: Shape) -> RankTrace:
    """Columns of another rank: later arrivals with the same ends, another clock, its groups."""
    shift = (rank // RANKS_A_HOST % 5) * 1_000_000  # one clock a host
    events = {name: _shifted(rows, shift) for name, rows in template.events.items()}
    events["gpu"] = _delayed(events["gpu"], rank)
    groups = _groups(rank, ranks, shape)
    args = template.collective_args
    sizes = np.array([group.size for group in groups], np.int64)
    number = {group.description: index for index, group in enumerate(groups)}
    order = np.array([number[group.description] for group in template.process_groups], np.int32)
    args = dataclasses.replace(args, group=order[args.group], group_size=sizes[order[args.group]])
    return structs.replace(
        template,
        source=structs.replace(template.source, path="", real_path=""),
        rank=rank,
        world_size=ranks,
        events=events,
        collective_args=args,
        process_groups=groups,
        host=f"node{rank // RANKS_A_HOST:04d}",
        base_ns=template.base_ns,
    )


def _shifted(rows: Events, by_ns: int) -> Events:
    return rows.later(by_ns)


def _delayed(rows: Events, rank: int) -> Events:
    """Work of the device of a rank, whose collectives begin later and end at the same time."""
    is_collective = rows.args >= 0
    count = int(is_collective.sum())
    delay = np.random.default_rng(rank).integers(0, _SPREAD_NS, count)
    if rank == _STRAGGLER:
        delay += _LATE_NS
    start, length = rows.start_ns.copy(), rows.dur_ns.copy()
    start[is_collective] += delay
    length[is_collective] -= delay
    return rows.with_columns(start_ns=start, dur_ns=length)
