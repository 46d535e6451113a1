"""What makes the steps of a job slow: a class, who, how much, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.metrics.attribution.job_verdict import details_of, verdict_of
from ccltui.metrics.attribution.lines.pass_units import WHOLE
from ccltui.metrics.collectives.replay.replay_order import DeadlockError
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.collective_selection import describe_group, require_ranks
from ccltui.metrics.view.exposed_waits import MATERIALITY
from ccltui.metrics.view.provenance import answer
from ccltui.parsers.names import listed

if TYPE_CHECKING:
    from ccltui.metrics.attribution.ladder import Ladder
    from ccltui.metrics.attribution.lines.job_lines import JobLines
    from ccltui.metrics.view.job_view import View


@metric(
    unit="%",
    definition=(
        "Share of the step time that differences between stages, ranks, steps, micro-batches and "
        "transfers and waiting for the host cost, in % of the mean measured step: "
        "measured time less that of a replay in which every pass takes the mean over stages of its "
        "typical worker and every transfer the typical time of its like; with the class of the "
        "difference that dominates, and who causes it, or why that cannot be told."
    ),
    needs=("GPU kernels of all ranks", "2 ranks"),
    keys=(
        "verdict",
        "confidence",
        "culprit",
        "loss_ms",
        "loss_pct",
        "saves_ms",
        "saves_pct",
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
    require_ranks(view)
    try:
        ladder, found = verdict_of(view)
    except DeadlockError as error:
        raise refuse("unmatched_collectives", f"the job cannot be replayed: {error}") from None
    job = ladder.job
    details = details_of(ladder, found)
    for one in (details["culprit"], *(item["culprit"] for item in details["also"])):
        if one is not None and one["group"] is not None:
            one["group"] = describe_group(view, one["group"])["group"]
    details["num_ranks"] = len(job.labels) - len(job.out)
    details["num_steps"] = job.num_steps
    return answer(
        verdict,
        view,
        details,
        source="kernel",
        basis=_basis(ladder),
        reasons=[
            Reason("missing_ranks", f"rank {label} is not compared: {why}", rank=label)
            for label, why in job.out.items()
        ]
        + _steps_left_out(job),
    )


def _steps_left_out(job: JobLines) -> list[Reason]:
    if not job.partly:
        return []
    steps = listed([str(step) for step in job.partly])
    text = f"steps {steps} are left out: some ranks recorded only a part of their collectives"
    if len(job.partly) == 1:
        text = f"step {steps} is left out: some ranks recorded only a part of its collectives"
    return [Reason("unmatched_collectives", text)]


def _basis(ladder: Ladder) -> dict[str, str]:
    job = ladder.job
    passes = "transfers" if job.stages.count > 1 else "launching thread or kernel names"
    types = set(job.units.type.tolist())
    if WHOLE in types:
        passes = "none: all compute of a step of a rank is one"
    return {
        "passes": passes,
        "step": "from the end of the step before; of a first step from its first work",
        "clock": "common" if job.has_clock else "none: lengths of steps are medians over ranks",
        "transfer": "shortest duration over the members",
    }


metric_cal = verdict.document_of
