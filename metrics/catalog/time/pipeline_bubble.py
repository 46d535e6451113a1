"""Share of a step that a pipeline stage spends without useful work because of the pipeline.

A stage that waits for its neighbour runs a receive kernel, so the device looks busy: idle time
alone is not the bubble.

Assign ranks to pipeline stages, and divide the time of each stage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.card.effective_config import PIPELINE
from ccltui.metrics.metric import metric
from ccltui.metrics.model.call_families import runs_on_gloo
from ccltui.metrics.model.classify import TYPES, any_name, distinct, is_one_of
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import run_conflicts
from ccltui.metrics.view.data_quality import guessed_steps, without_device_times
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.view.rank_view import in_turn
from ccltui.parsers.array_types import I64

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.model.communicator_groups import CommGroup
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import Bool

_SENDRECV: Final = TYPES.index("SendRecv")
_PP: Final = DIMS.index("pp")
_UNKNOWN: Final = (DIMS.index("unknown"), DIMS.index("world"))


class StageTime(Struct, frozen=True):
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
    transfer = is_one_of(calls.kind, ("Send", "Recv", "SendRecv"))
    if not transfer.any():
        return transfer
    dims, _ = view.dims_of(calls)
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


_IDLE_ONLY: Final = "idle_only"
"""Method of a job without recorded transfers: idle time, the heuristic of CCL-Bench.

A bubble is any part of it, from none on; waiting inside transfers is not in it.
"""


@metric(
    unit="ratio",
    definition=(
        "Share of the step windows in which pipeline stages are idle or wait inside transfers "
        "between stages for longer than the data takes to move, summed over stages. Where no "
        "transfer is recorded the value is the idle time between kernels, by the heuristic of "
        "CCL-Bench: partial, because any part of it, or none, is a bubble. The part `bubble` of "
        "`step_composition` is all exposed time in such transfers, that of moving data too, and no "
        "idle time."
    ),
    needs=(
        "GPU kernels",
        "pipeline degree, groups or point-to-point metadata",
        "step markers, or the whole trace is one",
    ),
    facts=("busy", "pairs"),
    keys=(
        "bubble_ratio",
        "bubble_time_ms",
        "total_time_ms",
        "method",
        "num_ranks",
        "warning",
        "stages",
        "theoretical_ratio",
        "schedule",
        "microbatches",
        "pp",
        "idle_ratio",
    ),
    parameters={
        "p2p_bandwidth_gbps": "of transfers whose other side is not recorded, decimal GB/s",
        "pp_schedule": "name of the schedule; of zero-bubble ones no theory is given",
        "pp_virtual_stages": "chunks of the model on each stage; 1 unless given",
    },
    aliases=("pipeline_bubble_16",),
    label="pipeline bubble",
    higher_is_better=False,
)
def pipeline_bubble(view: View) -> Result:
    """Idle time plus waiting inside pipeline transfers, over the windows of all stages."""
    ranks = _measurable(view)
    degree, disagreeing = _degree(view)
    warnings: list[str] = []
    assume = (degree or 1) > 1 and (view.degrees.ep or 1) == 1
    if degree == 1:
        raise refuse("not_applicable", "no pipeline: the degree pp is 1")
    bandwidth = _bandwidth(view)
    moves = any(_has_transfers(view, rank, assume=assume) for rank in ranks)
    transfers = transfer_times(view, bandwidth) if moves else {}
    parts = [
        measure(view, rank, transfers, degree=degree, assume=assume) for rank in in_turn(ranks)
    ]
    window = sum(part.window for part in parts)
    if not window:
        raise refuse("window_empty", "no device work in the steps or the window")
    bubble = sum(part.bubble for part in parts)
    method, reasons = _method(ranks, parts, degree)
    reasons += [*disagreeing, *run_conflicts(view, PIPELINE), *guessed_steps(view)]
    if assume and any(_is_assumed(view, rank) for rank in ranks):
        warnings.append("point-to-point kernels without metadata are taken for pipeline traffic")
    details = {
        "bubble_ratio": bubble / window,
        "bubble_time_ms": milliseconds(bubble),
        "total_time_ms": milliseconds(window),
        "method": method,
        "num_ranks": len(parts),
        "warning": "; ".join([*warnings, *(reason.message for reason in reasons)]) or None,
        "stages": [_stage_row(stage, members) for stage, members in by_stage(parts)],
        "theoretical_ratio": _theory(view, degree),
        "schedule": view.card.text("pp_schedule") or None,
        "microbatches": view.card.count("pp_microbatches"),
        "pp": degree,
        "idle_ratio": sum(part.idle for part in parts) / window,
    }
    return answer(
        pipeline_bubble,
        view,
        details,
        source="kernel" if method != "cpu_only" else ranks[0].recorded_calls.source,
        basis=_basis(method),
        reasons=reasons,
        warnings=warnings,
    )


def _measurable(view: View) -> list[RankView]:
    """Ranks with kernels; where no rank has any, the ranks that use gloo."""
    ranks = [rank for rank in view.ranks if rank.facts.has_kernels]
    if ranks:
        return ranks
    on_cpu = [rank for rank in view.ranks if runs_on_gloo(rank.trace)]
    if not on_cpu:
        raise without_device_times(view, "CPU-only trace: no kernel was recorded on any rank")
    return on_cpu


def _degree(view: View) -> tuple[int | None, list[Reason]]:
    """Number of stages, and conflicts of the sources; groups in the trace override the card."""
    stated, shown = view.degrees.pp, group_degree(view)
    if shown is not None and stated is not None and stated != shown:
        text = f"the card states pp = {stated}, the pipeline groups have {shown} ranks"
        return shown, [Reason("card_conflict", text)]
    if shown is None and stated is None and view.world_size == 1:
        return 1, []
    return shown or stated, []


def _bandwidth(view: View) -> float | None:
    text = view.card.text("p2p_bandwidth_gbps")
    try:
        return float(text) if text else None
    except ValueError:
        raise refuse("card_invalid", f"p2p_bandwidth_gbps = {text!r} is not a number") from None


def _method(
    ranks: list[RankView], parts: list[StageTime], degree: int | None
) -> tuple[str, list[Reason]]:
    """The method that gives the number, and the reasons for what it does not cover."""
    if not any(part.num_transfers for part in parts):
        if not ranks[0].facts.has_kernels:
            raise refuse("no_gpu_events", "CPU-only trace without pipeline transfers")
        if degree is None:
            text = (
                "whether there is a pipeline is unknown: idle time, of which any part is a bubble"
            )
            return _IDLE_ONLY, [Reason("no_process_groups", text)]
        text = (
            f"pp = {degree}, but no transfer between stages is recorded: idle time, without the "
            "waiting inside of transfers"
        )
        return _IDLE_ONLY, [Reason("no_collectives", text)]
    reasons = []
    unpaired = sum(part.num_unpaired for part in parts)
    if unpaired:
        total = sum(part.num_transfers for part in parts)
        text = (
            f"{unpaired} of {total} transfers lack their other side: how long they move data is "
            "unknown, the bubble is an upper bound"
        )
        reasons.append(Reason("unmatched_collectives", text))
    if not ranks[0].facts.has_kernels:
        text = "CPU-only trace: waiting inside gloo's transfers, idle time is not counted"
        return "cpu_only", [*reasons, Reason("no_gpu_events", text)]
    return "p2p", reasons


def _has_transfers(view: View, rank: RankView, *, assume: bool) -> bool:
    calls = view.with_dims(rank, rank.recorded_calls)
    return bool(pipeline_rows(view, calls, assume=assume).any())


def _is_assumed(view: View, rank: RankView) -> bool:
    calls = view.with_dims(rank, rank.recorded_calls)
    stated, assumed = (pipeline_rows(view, calls, assume=a).sum() for a in (False, True))
    return bool(assumed > stated)


def _stage_row(stage: int | None, members: list[StageTime]) -> dict[str, Any]:
    """Sums over the ranks and steps of one stage."""
    total = {
        name: sum(getattr(part, name) for part in members)
        for name in (
            "window",
            "idle",
            "exposed_p2p",
            "transfer",
            "bubble",
            "warmup",
            "steady",
            "cooldown",
        )
    }
    row: dict[str, Any] = {f"{name}_ms": milliseconds(value) for name, value in total.items()}
    transfers = sum(part.num_transfers for part in members)
    if transfers and transfers == sum(part.num_unpaired for part in members):
        row["transfer_ms"] = None
    return {
        "stage": stage,
        "ranks": [part.label for part in members],
        **row,
        "bubble_ratio": ratio(total["bubble"], total["window"]),
    }


def _theory(view: View, degree: int | None) -> float | None:
    """Theoretical bubble of GPipe, 1F1B or interleaved 1F1B; None for others or unknown inputs."""
    micro_batches = view.card.count("pp_microbatches")
    chunks = view.card.count("pp_virtual_stages") or 1
    schedule = view.card.text("pp_schedule").lower()
    if degree is None or not micro_batches or "zb" in schedule or "zero" in schedule:
        return None
    return (degree - 1) / (chunks * micro_batches + degree - 1)


def _basis(method: str) -> dict[str, str]:
    bubble = {
        "p2p": "idle + max(0, exposed transfers - transfer time)",
        _IDLE_ONLY: "idle time between kernels: the heuristic of CCL-Bench without stages",
        "cpu_only": "max(0, exposed transfers - transfer time)",
    }
    return {
        "bubble": bubble[method],
        "aggregate": "sum over ranks and steps over their windows",
        "theory": "(p-1)/(v*m+p-1): GPipe, 1F1B, interleaved with v chunks",
    }


metric_cal = pipeline_bubble.document_of
