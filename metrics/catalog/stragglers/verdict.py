"""What makes the steps of a job slow: a class, who, how much, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.metrics.findings.replay.verdict_details import verdict_details
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.view.collective_selection import MATERIALITY
from ccltui.metrics.view.provenance import answer

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


@metric(
    unit="%",
    definition=(
        "Share of the mean measured step, in %, that is lost to differences between stages, "
        "ranks, steps, micro-batches and transfers, and to waiting for the host: the measured "
        "time less that of a replay in which every pass takes the mean over stages of its typical "
        "worker, and every transfer the typical time of comparable transfers. The details state "
        "the class of the largest difference and who causes it, or why that is not known."
    ),
    needs=("GPU kernels of all ranks", "2 ranks"),
    facts=("verdict",),
    keys=(
        "verdict",
        "confidence",
        "sure",
        "culprit",
        "loss_ms",
        "loss_pct",
        "saves_ms",
        "saves_pct",
        "saves_bounds_ms",
        "hosts_launch_ms",
        "shares",
        "period",
        "ladder_ms",
        "agreement",
        "also",
        "evidence",
        "ruled_out",
        "next",
        "why",
        "num_ranks",
        "num_steps",
        "steps_left_out",
    ),
    headline="loss_pct",
    label="verdict",
    higher_is_better=False,
    parameters={
        MATERIALITY: "percentage of the step below which nobody is a straggler; 1 unless given"
    },
)
def verdict(view: View) -> Result:
    """Replay the job with one kind of difference after another, and name the largest."""
    found = verdict_details(view)
    return answer(
        verdict,
        view,
        found.details,
        source="kernel",
        basis=found.basis,
        reasons=found.reasons,
    )


metric_cal = verdict.document_of
