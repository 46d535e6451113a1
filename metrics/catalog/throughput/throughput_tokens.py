"""Training tokens per second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.view.provenance import answer, side_answer
from ccltui.metrics.workload.token_rate import token_rate

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="tokens/s",
    definition=(
        "Training tokens per second: global batch size times sequence length, divided by the "
        "median over steps of the step time (the maximum over ranks). This is the value, because "
        "one slow step (a checkpoint, a first compilation) does not move it. "
        "throughput_tokens_per_s_by_total_time is the formula of CCL-Bench: batch size times "
        "sequence length times iterations, divided by the total time of these, in which a slow "
        "step counts in full."
    ),
    needs=(
        "workload card or overrides: batch_size, seq_len, data-parallel degrees",
        "step markers (in a Kineto trace; else in execution traces)",
    ),
    facts=("step_of_work", "groups"),
    keys=(
        "throughput_tokens_per_s",
        "throughput_tokens_per_s_by_total_time",
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
    parameters={"gradient_accumulation": "local batches taken in by one step; 1 unless given"},
    aliases=("throughput_tokens_16",),
    label="tokens per second",
    higher_is_better=True,
    needs_traces=False,
)
def throughput_tokens(view: View) -> Result:
    """Tokens of a step over the median step time."""
    rate = token_rate(view)
    details: dict[str, Any] = {
        "throughput_tokens_per_s": rate.tokens_per_s,
        "throughput_tokens_per_s_by_total_time": rate.tokens_per_s_total,
        "total_tokens": rate.tokens_per_step * len(rate.step_times_ns),
        "measured_duration_s": sum(rate.step_times_ns) / 1e9,
        "num_iterations": len(rate.step_times_ns),
        "batch_size": rate.batch_size,
        "seq_len": rate.seq_len,
        "tokens_per_step": rate.tokens_per_step,
        "tokens_per_s_per_gpu": ratio(rate.tokens_per_s or 0.0, view.world_size or 0),
        "tokens_per_s_per_dp_rank": ratio(rate.tokens_per_s or 0.0, rate.replicas or 0),
        "step_time_s": rate.step_time_s,
        "batch_size_scope": rate.batch_size_scope,
        "provenance": rate.provenance,
    }
    if rate.files:
        return side_answer(
            throughput_tokens,
            view,
            details,
            files=rate.files,
            basis=rate.basis,
            reasons=rate.reasons,
            warnings=rate.warnings,
        )
    return answer(
        throughput_tokens,
        view,
        details,
        source="annotation",
        basis=rate.basis,
        reasons=rate.reasons,
        warnings=rate.warnings,
    )


metric_cal = throughput_tokens.document_of
