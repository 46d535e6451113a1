"""Assign ranks to pipeline stages, and divide the time of each stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.model.classify import TYPES, any_name, distinct
from ccltui.metrics.model.dimensions import DIMS
from ccltui.parsers.array_types import I64

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.model.communicator_groups import CommGroup
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import Bool

_TRANSFERS: Final = [TYPES.index(name) for name in ("Send", "Recv", "SendRecv")]
_SENDRECV: Final = TYPES.index("SendRecv")
_PP: Final = DIMS.index("pp")
_UNKNOWN: Final = (DIMS.index("unknown"), DIMS.index("world"))


@dataclass(frozen=True, slots=True)
class StageTime:
    """Division of the measured time of one rank, in ns.

    Attributes:
        label: label of the rank.
        stage: its pipeline stage, None where unknown.
        window: measured time.
        idle: time without work.
        exposed_p2p: time in pipeline transfers without other work.
        transfer: part of ``exposed_p2p`` in which data moves.
        warmup: time before the first computation of each step.
        cooldown: time after the last computation of each step.
        num_transfers: number of transfers.
        num_unpaired: number of transfers whose own time is unknown.
        counts_idle: whether idle time is part of the bubble; False without recorded kernels.
    """

    label: str
    stage: int | None
    window: int
    idle: int
    exposed_p2p: int
    transfer: int
    warmup: int
    cooldown: int
    num_transfers: int
    num_unpaired: int
    counts_idle: bool = True

    @property
    def bubble(self) -> int:
        """Time waiting for the pipeline: idle time, and waiting inside transfers."""
        waiting = max(0, self.exposed_p2p - self.transfer)
        return waiting + (self.idle if self.counts_idle else 0)

    @property
    def steady(self) -> int:
        """Time between the first and the last computation of each step."""
        return self.window - self.warmup - self.cooldown


def pipeline_rows(view: View, calls: Calls, *, assume: bool) -> Bool:
    """Return which calls are transfers of the pipeline.

    ``assume`` includes point-to-point kernels without a known operation or dimension.
    """
    dims, _ = view.dims_of(calls)
    transfer = np.isin(calls.kind, _TRANSFERS)
    found: Bool = transfer & (dims == _PP)
    if assume:
        found |= (calls.kind == _SENDRECV) & np.isin(dims, _UNKNOWN) & ~calls.has_metadata
    return found


def group_degree(view: View) -> int | None:
    """Return the number of stages in the traces, the size of the largest pipeline group."""
    sizes = [group.size for group in view.groups_with_dims if group.dim == "pp" and group.size > 1]
    return max(sizes, default=None)


def stage_of(view: View, rank: int | None, degree: int | None) -> int | None:
    """Return the stage of a rank: its index in its pipeline group, else in the grid of ranks.

    The pipeline is the outermost axis of the grid. None where the stage is unknown.
    """
    if rank is None:
        return None
    stages = view.remember(_stages_of_groups, lambda: _stages_of_groups(view.groups_with_dims))
    if rank in stages:
        return stages[rank]
    world = view.world_size
    if degree is None or world is None or world % degree:
        return None
    return rank // (world // degree)


def _stages_of_groups(groups: Sequence[CommGroup]) -> Mapping[int, int]:
    """Return the index of each rank in its pipeline group, the first one where it has several."""
    found: dict[int, int] = {}
    for group in groups:
        if group.dim == "pp":
            for stage, rank in enumerate(group.ranks):
                found.setdefault(rank, stage)
    return found


def measure(
    view: View, rank: RankView, transfers: Mapping[str, I64], *, degree: int | None, assume: bool
) -> StageTime:
    """Divide the work of steps of one rank into useful work, transfers, waiting and idle time.

    The time of a step ends here with its last work: until the next step begins, no schedule of a
    pipeline keeps the device waiting, but the data loader or other host work.

    Args:
        view: the job.
        rank: the rank.
        transfers: result of `transfer_times`; not read where no call of a rank is a transfer.
        degree: number of stages, None where unknown.
        assume: see `pipeline_rows`.
    """
    calls = view.with_dims(rank, rank.recorded_calls)
    rows = pipeline_rows(view, calls, assume=assume)
    p2p = union(calls.start_ns[rows], calls.end_ns[rows]) & rank.worked
    useful, computing = _useful(rank, rows)
    exposed = p2p - useful
    needed = transfers[rank.label][rows] if rows.any() else np.empty(0, np.int64)
    paired = needed >= 0
    ends = calls.end_ns[rows][paired]
    moving = union(ends - needed[paired], ends)
    inside = rank.worked.contains(calls.start_ns[rows])
    warmup, cooldown = _edges(rank, computing)
    return StageTime(
        label=rank.label,
        stage=stage_of(view, rank.rank, degree),
        window=rank.worked.total_ns,
        idle=rank.worked.total_ns - (useful | p2p).total_ns,
        exposed_p2p=exposed.total_ns,
        transfer=(moving & exposed).total_ns,
        warmup=warmup,
        cooldown=cooldown,
        num_transfers=int(inside.sum()),
        num_unpaired=int((inside & ~paired).sum()),
        counts_idle=rank.facts.has_kernels,
    )


def _useful(rank: RankView, p2p_rows: Bool) -> tuple[Intervals, Intervals]:
    """Work that is not a transfer of the pipeline, and the computation in it."""
    if rank.facts.has_kernels:
        calls, other = rank.recorded_calls, ~p2p_rows
        comm = union(calls.start_ns[other], calls.end_ns[other]) & rank.worked
        computing = rank.comp & rank.worked
        return computing | (rank.mem & rank.worked) | comm, computing
    operators = rank.trace.group("cpu_ops")
    names = [i for i in distinct(operators.name) if rank.trace.text(i).startswith("aten::")]
    rows = any_name(rank.trace.strings, operators.name, names)
    computing = union(operators.start_ns[rows], operators.end_ns[rows]) & rank.worked
    return computing, computing


def _edges(rank: RankView, computing: Intervals) -> tuple[int, int]:
    """Time before the first and after the last computation, summed over the steps."""
    warmup = cooldown = 0
    for _, start, end in rank.work_windows:
        inside = computing.clip(start, end)
        if len(inside):
            warmup += int(inside.start_ns[0]) - start
            cooldown += end - int(inside.end_ns[-1])
        else:
            warmup += end - start
    return warmup, cooldown


def transfer_times(view: View, bandwidth_gbps: float | None) -> dict[str, I64]:
    """Return how long each call of each rank moves data, int64 ns by label; -1 where unknown.

    This is the duration of the shorter side of a matched pair, which does not wait for the other.
    For a call without its partner it is bytes over bandwidth, where a bandwidth is given (decimal
    GB/s are bytes per ns).
    """
    inputs = view.match_inputs
    needed = {item.label: _from_bandwidth(item.calls, bandwidth_gbps) for item in inputs}
    pairs = view.pairs
    send_dur, recv_dur = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    for index, item in enumerate(inputs):
        sent, received = pairs.sender == index, pairs.receiver == index
        send_dur[sent] = item.calls.dur_ns[pairs.send_row[sent]]
        recv_dur[received] = item.calls.dur_ns[pairs.recv_row[received]]
    shorter = np.minimum(send_dur, recv_dur)
    for index, item in enumerate(inputs):
        sent, received = pairs.sender == index, pairs.receiver == index
        needed[item.label][pairs.send_row[sent]] = shorter[sent]
        needed[item.label][pairs.recv_row[received]] = shorter[received]
    return needed


def _from_bandwidth(calls: Calls, bandwidth_gbps: float | None) -> I64:
    if bandwidth_gbps is None or bandwidth_gbps <= 0:
        return np.full(len(calls), -1, np.int64)
    time = np.rint(calls.message_bytes / bandwidth_gbps).astype(np.int64)
    return np.where(calls.message_bytes >= 0, np.minimum(time, calls.dur_ns), -1)


def by_stage(parts: list[StageTime]) -> list[tuple[int | None, list[StageTime]]]:
    """Group ranks by stage, in order; a rank of unknown stage is a group of its own."""
    stages: defaultdict[tuple[bool, int, str], list[StageTime]] = defaultdict(list)
    for part in parts:
        unknown = part.stage is None
        stages[unknown, part.stage or 0, part.label if unknown else ""].append(part)
    return [(members[0].stage, members) for _, members in sorted(stages.items())]
