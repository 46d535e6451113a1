"""Share of a step that a pipeline stage spends without useful work because of the pipeline.

A stage that waits for its neighbour runs a receive kernel, so the device looks busy: idle time
alone is not the bubble.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.card.effective_config import PIPELINE
from ccltui.metrics.metric import metric
from ccltui.metrics.model.call_families import runs_on_gloo
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import run_conflicts
from ccltui.metrics.view.data_quality import guessed_steps, without_device_times
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.workload.pipeline import (
    StageTime,
    by_stage,
    group_degree,
    measure,
    pipeline_rows,
    transfer_times,
)

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


_IDLE_ONLY: Final = "idle_only"
"""Method of a job without recorded transfers: idle time, of which a bubble is any part."""


@metric(
    unit="ratio",
    definition=(
        "Share of the step windows in which pipeline stages are idle or wait inside transfers "
        "between stages for longer than the data takes to move, summed over stages; none where no "
        "transfer is recorded, because idle time alone is no bubble. The part `bubble` of "
        "`step_composition` is all exposed time in such transfers, that of moving data too, and no "
        "idle time."
    ),
    needs=(
        "GPU kernels",
        "pipeline degree, groups or point-to-point metadata",
        "step markers, or the whole trace is one",
    ),
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
    headline="bubble_ratio",
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
    parts = [measure(view, rank, transfers, degree=degree, assume=assume) for rank in ranks]
    window = sum(part.window for part in parts)
    if not window:
        raise refuse("window_empty", "no device work in the steps or the window")
    bubble = sum(part.bubble for part in parts)
    method, reasons = _method(ranks, parts, degree)
    reasons += [*disagreeing, *run_conflicts(view, PIPELINE), *guessed_steps(view)]
    if assume and any(_is_assumed(view, rank) for rank in ranks):
        warnings.append("point-to-point kernels without metadata are taken for pipeline traffic")
    details = {
        "bubble_ratio": None if method == _IDLE_ONLY else bubble / window,
        "bubble_time_ms": None if method == _IDLE_ONLY else milliseconds(bubble),
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
            text = "whether there is a pipeline is unknown: this is idle time, not a bubble"
            return _IDLE_ONLY, [Reason("no_process_groups", text)]
        text = f"pp = {degree}, but no transfer between stages is recorded: idle time only"
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
        _IDLE_ONLY: "unknown: only idle time is recorded",
        "cpu_only": "max(0, exposed transfers - transfer time)",
    }
    return {
        "bubble": bubble[method],
        "aggregate": "sum over ranks and steps over their windows",
        "theory": "(p-1)/(v*m+p-1): GPipe, 1F1B, interleaved with v chunks",
    }


metric_cal = pipeline_bubble.document_of
