"""How many training tokens the job takes in per second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import median, ratio
from ccltui.metrics.card.config_conflicts import rate_conflict, run_conflicts
from ccltui.metrics.card.effective_config import BATCHES
from ccltui.metrics.catalog.time.iter_time import step_times
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import answer
from ccltui.metrics.view.side_results import side_answer
from ccltui.metrics.workload.execution_steps import (
    ExecutionTimes,
    execution_times,
    has_only_execution_traces,
)

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_SCOPES = {"global": "global", "local": "local", "per_rank": "local", "per_device": "local"}
_FIELDS = (
    "batch_size",
    "batch_size_scope",
    "seq_len",
    "dp_replicate",
    "dp_shard",
    "gradient_accumulation",
)


@metric(
    unit="tokens/s",
    definition=(
        "Training tokens per second: global batch size times sequence length, over the median "
        "step time (the maximum over ranks of each step)."
    ),
    needs=(
        "workload card or overrides: batch_size, seq_len, data-parallel degrees",
        "step markers (in a Kineto trace; else in execution traces)",
    ),
    keys=(
        "throughput_tokens_per_s",
        "total_tokens",
        "measured_duration_s",
        "num_iterations",
        "batch_size",
        "seq_len",
        "tokens_per_step",
        "tokens_per_s_per_gpu",
        "tokens_per_s_per_dp_rank",
        "step_time_s",
        "batch_size_scope",
        "provenance",
    ),
    headline="throughput_tokens_per_s",
    parameters={"gradient_accumulation": "local batches taken in by one step; 1 unless given"},
    aliases=("throughput_tokens_16",),
    label="tokens per second",
    higher_is_better=True,
    needs_traces=False,
)
def throughput_tokens(view: View) -> Result:
    """Tokens of a step over the median step time."""
    executed = has_only_execution_traces(view)
    if not executed:
        view.require_traces()
    batch, seq_len = _stated(view)
    scope, warnings = _scope(view)
    replicas = data_parallel(view)
    accumulation = view.card.count("gradient_accumulation") or 1
    if scope == "local":
        batch *= (replicas or 1) * accumulation
    times = execution_times(view) if executed else step_times(view)
    seconds = [ns / 1e9 for ns in times.slowest_ns]
    step_time = median(seconds) or 0.0
    tokens = batch * seq_len
    throughput = ratio(tokens, step_time)
    world = view.world_size
    details: dict[str, Any] = {
        "throughput_tokens_per_s": throughput,
        "total_tokens": tokens * len(seconds),
        "measured_duration_s": sum(times.slowest_ns) / 1e9,
        "num_iterations": len(seconds),
        "batch_size": batch,
        "seq_len": seq_len,
        "tokens_per_step": tokens,
        "tokens_per_s_per_gpu": ratio(throughput or 0.0, world or 0),
        "tokens_per_s_per_dp_rank": ratio(throughput or 0.0, replicas or 0),
        "step_time_s": step_time,
        "batch_size_scope": scope,
        "provenance": _provenance(view),
    }
    basis = _basis(view, scope, accumulation)
    reasons = [*times.reasons, *run_conflicts(view, BATCHES), *rate_conflict(view, throughput)]
    if isinstance(times, ExecutionTimes):
        return side_answer(
            throughput_tokens,
            view,
            details,
            files=times.files,
            basis={**basis, "duration": times.basis},
            reasons=reasons,
            warnings=warnings,
        )
    return answer(
        throughput_tokens,
        view,
        details,
        source="annotation",
        basis=basis,
        reasons=reasons,
        warnings=warnings,
    )


def _stated(view: View) -> tuple[int, int]:
    """Batch size and sequence length as stated; nothing is assumed."""
    card = view.card
    if card.text("phase") in ("inference", "serving"):
        raise refuse("phase_mismatch", f"a training metric on a card of phase {card.text('phase')}")
    batch, seq_len = card.count("batch_size"), card.count("seq_len")
    if batch is not None and seq_len is not None:
        return batch, seq_len
    if card.problem is not None:
        raise refuse("card_invalid", card.problem)
    missing = [
        name for name, value in (("batch_size", batch), ("seq_len", seq_len)) if value is None
    ]
    if card.card is None:
        text = f"no workload card, and no override of {' and '.join(missing)}"
        raise refuse("no_card", text)
    raise refuse(
        "card_incomplete",
        f"the card does not state {' and '.join(missing)} as a single number",
        file=card.card.path,
    )


def _scope(view: View) -> tuple[str, list[str]]:
    """Whether the batch is that of the job or of a data-parallel rank."""
    stated = view.card.text("batch_size_scope").lower()
    if stated in _SCOPES:
        if _SCOPES[stated] == "local":
            _require_data_parallel(view)
        return _SCOPES[stated], []
    replicas = data_parallel(view)
    if replicas == 1:
        return "local", []
    if "titan" in view.card.text("framework").lower():
        _require_data_parallel(view)
        return "local", [
            "the card does not say whose batch size it is; TorchTitan cards hold the local one"
        ]
    degree = "unknown" if replicas is None else replicas
    raise refuse(
        "ambiguous_batch_scope",
        f"batch_size may be of the job or of one of its data-parallel ranks ({degree}): "
        "state batch_size_scope",
    )


def _require_data_parallel(view: View) -> None:
    if data_parallel(view) is None:
        raise refuse(
            "card_incomplete",
            "a local batch size needs dp_replicate and dp_shard, and the card states neither",
        )


def data_parallel(view: View) -> int | None:
    """Data-parallel ranks, dp_replicate * dp_shard; None where the card does not tell.

    What the other degrees leave of the world counts where one of the two is open.
    """
    degrees = view.degrees
    full = degrees.completed(view.world_size)
    if full is not None:
        return (full.dp_replicate or 1) * (full.dp_shard or 1)
    stated = [d for d in (degrees.dp_replicate, degrees.dp_shard) if d is not None and d > 0]
    if not stated:
        return 1 if view.world_size == 1 else None
    return stated[0] * (stated[1] if len(stated) > 1 else 1)


def _provenance(view: View) -> dict[str, str]:
    return {**view.card.provenance(*_FIELDS), "step_time_s": "trace"}


def _basis(view: View, scope: str, accumulation: int) -> dict[str, str]:
    stated = view.card.origin("gradient_accumulation") is not None
    basis = {
        "step_time": "median over steps of the maximum over ranks",
        "batch_size": "as stated" if scope == "global" else "local, times the data-parallel ranks",
    }
    if scope == "local":
        basis["gradient_accumulation"] = str(accumulation) if stated else "1, none is stated"
    return basis


metric_cal = throughput_tokens.document_of
