"""Jobs whose collectives name no communicator, as of PyTorch before 2.3, of any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from factories import Event, allreduce, job, kernel, rank_trace, step

from ccltui.parsers.columns import ProcessGroup, RankTrace

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

NODE = 8
PERIOD_US = 1000.0
STEPS = 4


def nameless_job(
    ranks: int,
    calls: int,
    listed: Callable[[int], Sequence[ProcessGroup]] | None = None,
    *,
    streams: int = 1,
) -> Job:
    """Every rank calls the all-reduce of its node, one after another, and computes in between.

    Args:
        ranks: number of ranks, a multiple of ``NODE``.
        calls: collectives of each rank.
        listed: process groups that the file of a rank lists; none if None.
        streams: number of streams that the calls alternate between.
    """
    drawn = np.random.default_rng(7)
    late = drawn.uniform(0, 200, (ranks, calls))
    last = late.reshape(-1, NODE, calls).max(axis=1).repeat(NODE, axis=0)
    scatter = drawn.uniform(0, 0.5, (ranks, calls))
    # Nodes drift apart, or all communicators would advance in step.
    nodes = np.cumsum(drawn.uniform(0, 90, (ranks // NODE, calls)), axis=1).repeat(NODE, axis=0)
    begin = nodes + PERIOD_US * np.arange(calls)
    traces = [
        _trace(
            rank,
            world_size=ranks,
            begin=begin[rank],
            late=late[rank],
            until=last[rank] + 60 + scatter[rank],
            listed=listed,
            streams=streams,
        )
        for rank in range(ranks)
    ]
    return job(*traces)


def listed_node(rank: int) -> list[ProcessGroup]:
    """The only communicator of a rank that its file lists: that of its node."""
    first = rank - rank % NODE
    return [ProcessGroup("1", "tp", tuple(range(first, first + NODE)), NODE, "cuda:nccl")]


def listed_world(ranks: int) -> list[ProcessGroup]:
    """The communicator of all ranks."""
    return [ProcessGroup("0", "default_pg", tuple(range(ranks)), ranks, "cuda:nccl")]


def _trace(
    rank: int,
    *,
    world_size: int,
    begin: npt.NDArray[np.float64],
    late: npt.NDArray[np.float64],
    until: npt.NDArray[np.float64],
    listed: Callable[[int], Sequence[ProcessGroup]] | None,
    streams: int,
) -> RankTrace:
    events: list[Event] = []
    calls = zip(begin.tolist(), late.tolist(), until.tolist(), strict=True)
    for number, (start, behind, end) in enumerate(calls):
        events.append(kernel("sm90_xmma_gemm_bf16bf16", start - 500, 500 + behind))
        events.append(allreduce(start + behind, end - behind, stream=20 + number % streams))
    number = len(begin)
    length = PERIOD_US * number / STEPS
    return rank_trace(
        rank,
        gpu=events,
        annotations=[
            step(n, float(begin[n * number // STEPS]) - 600, length - 1) for n in range(STEPS)
        ],
        groups=() if listed is None else listed(rank),
        world_size=world_size,
        host=f"node-{rank // NODE}",
    )
