"""Training tokens per second from the workload card and the step times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ccltui.metrics.arrays.statistics import median, ratio
from ccltui.metrics.card.effective_config import BATCHES
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import degree_conflicts, rate_conflict
from ccltui.metrics.view.provenance import require_traces
from ccltui.metrics.workload.execution_steps import (
    ExecutionTimes,
    execution_times,
    has_only_execution_traces,
)
from ccltui.metrics.workload.job_steps import StepTimes, step_times, warnings_of_markers
from ccltui.metrics.workload.traced_tokens import Tokens, tokens_that_ran

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_SCOPES: Final = {"global": "global", "local": "local", "per_rank": "local", "per_device": "local"}
_FIELDS: Final = (
    "batch_size",
    "batch_size_scope",
    "seq_len",
    "dp_replicate",
    "dp_shard",
    "gradient_accumulation",
)


@dataclass(frozen=True, slots=True)
class TokenRate:
    """Tokens per second of a training job, and the numbers it is computed from.

    ``tokens_per_s`` is by the median step, ``tokens_per_s_total`` by all steps together.
    ``batch_size`` is the global batch, and ``replicas`` the number of data-parallel ranks, None
    where it is unknown. ``files`` are the execution traces that the step times come from, empty
    where they come from step markers.
    """

    tokens_per_s: float | None
    tokens_per_s_total: float | None
    tokens_per_step: int
    step_time_s: float
    step_times_ns: Sequence[int]
    batch_size: int
    seq_len: int
    batch_size_scope: str
    replicas: int | None
    provenance: Mapping[str, str]
    basis: Mapping[str, str]
    files: Sequence[str]
    reasons: Sequence[Reason]
    warnings: Sequence[str]


def token_rate(view: View) -> TokenRate:
    """Tokens of a step over the median step time.

    Raises:
        Refusal: The card does not state the batch, or no step is marked.
    """
    executed = has_only_execution_traces(view)
    if not executed:
        require_traces(view)
    batch, seq_len = _stated(view)
    scope, warnings = _scope(view)
    replicas = data_parallel(view)
    accumulation = view.card.count("gradient_accumulation") or 1
    if scope == "local":
        batch *= (replicas or 1) * accumulation
    stated = Tokens(batch, seq_len)
    ran, contradicting = tokens_that_ran(view, stated, replicas)
    tokens = ran or stated
    times: ExecutionTimes | StepTimes
    if executed:
        times = execution_times(view)
    else:
        times = step_times(view)
        warnings = [*warnings, *warnings_of_markers(view, times)]
    step_time = median([ns / 1e9 for ns in times.slowest_ns]) or 0.0
    tokens_per_s = ratio(tokens.per_step, step_time)
    basis = _basis(view, scope, accumulation)
    provenance = {**view.card.provenance(*_FIELDS), "step_time_s": "trace"}
    if ran is not None:
        basis["batch_size"] = "look-ups of embeddings in the traces"
        provenance |= {"batch_size": "trace", "seq_len": "trace"}
    if isinstance(times, ExecutionTimes):
        basis["duration"] = times.basis
    measured_s = sum(times.slowest_ns) / 1e9
    return TokenRate(
        tokens_per_s=tokens_per_s,
        tokens_per_s_total=ratio(tokens.per_step * len(times.slowest_ns), measured_s),
        tokens_per_step=tokens.per_step,
        step_time_s=step_time,
        step_times_ns=times.slowest_ns,
        batch_size=tokens.batch_size,
        seq_len=tokens.seq_len,
        batch_size_scope=scope,
        replicas=replicas,
        provenance=provenance,
        basis=basis,
        files=times.files if isinstance(times, ExecutionTimes) else (),
        reasons=[
            *times.reasons,
            *degree_conflicts(view, BATCHES),
            *contradicting,
            *rate_conflict(view, tokens_per_s),
        ],
        warnings=warnings,
    )


def _stated(view: View) -> tuple[int, int]:
    """Batch size and sequence length as stated; neither has a default."""
    card = view.card
    phase = card.text("phase")
    if phase in ("inference", "serving"):
        text = f"it measures training, and the card states phase {phase}"
        raise refuse("phase_mismatch", text)
    batch, seq_len = card.count("batch_size"), card.count("seq_len")
    if batch is not None and seq_len is not None:
        return batch, seq_len
    missing = [
        name for name, value in (("batch_size", batch), ("seq_len", seq_len)) if value is None
    ]
    raise card.lacking(missing)


def _scope(view: View) -> tuple[str, list[str]]:
    """Scope of the batch size, "global" or "local" (per data-parallel rank), and warnings."""
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
    """Number of data-parallel ranks, dp_replicate * dp_shard; None where the card states neither.

    Where one of the two is not stated, it is the world size divided by the other degrees.
    """
    degrees = view.degrees
    full = degrees.completed(view.world_size)
    if full is not None:
        return (full.dp_replicate or 1) * (full.dp_shard or 1)
    stated = [d for d in (degrees.dp_replicate, degrees.dp_shard) if d is not None and d > 0]
    if not stated:
        return 1 if view.world_size == 1 else None
    return stated[0] * (stated[1] if len(stated) > 1 else 1)


def _basis(view: View, scope: str, accumulation: int) -> dict[str, str]:
    stated = view.card.origin("gradient_accumulation") is not None
    basis = {
        "step_time": "median over steps of the maximum over ranks",
        "batch_size": "as stated" if scope == "global" else "local, times the data-parallel ranks",
    }
    if scope == "local":
        basis["gradient_accumulation"] = str(accumulation) if stated else "1, none is stated"
    return basis
