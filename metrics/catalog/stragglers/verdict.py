"""What makes the steps of a job slow: a class, who, how much, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.confidence import Level, Sure, level_of_saving
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.replay.job_facts import lost_reasons, lost_records, steps_left_out
from ccltui.metrics.findings.replay.ladder import RUNGS
from ccltui.metrics.findings.replay.lines.pass_units import WHOLE
from ccltui.metrics.findings.replay.lines.step_replay import DeadlockError
from ccltui.metrics.findings.replay.savings import bounds_of_hosts, why_bounded, why_host_bound
from ccltui.metrics.findings.replay.verdict_rules import Verdict, alone_reasons, verdict_of
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.collective_selection import MATERIALITY, describe_group, require_ranks
from ccltui.metrics.view.data_quality import guessed_steps
from ccltui.metrics.view.provenance import answer

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.conclusions import Conclusion
    from ccltui.metrics.findings.replay.ladder import Ladder
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
    facts=("sums", "verdict"),
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
    details, basis, reasons = _replayed(view)
    return answer(verdict, view, details, source="kernel", basis=basis, reasons=reasons)


@fact("verdict")
def _replayed(view: View) -> tuple[dict[str, Any], dict[str, str], list[Reason]]:
    """Return the details of the verdict, how they were obtained, and what is partial."""
    require_ranks(view)
    try:
        ladder, found = verdict_of(view)
    except DeadlockError as error:
        raise refuse("unmatched_collectives", f"the job cannot be replayed: {error}") from None
    job = ladder.job
    details = _details(ladder, found)
    for one in (details["culprit"], *(item["culprit"] for item in details["also"])):
        if one is not None and one["group"] is not None:
            one["group"] = describe_group(view, one["group"])["group"]
    details["num_ranks"] = len(job.labels) - len(job.out)
    details["num_steps"] = job.num_steps
    details["steps_left_out"] = list(job.partly)
    reasons = [
        Reason("missing_ranks", f"rank {label} is not compared: {why}", rank=label)
        for label, why in job.out.items()
    ]
    reasons += alone_reasons(ladder) + steps_left_out(job) + guessed_steps(view)
    bounds = found.conclusion.bounds
    reasons += [] if bounds is None else [why_bounded(bounds)]
    reasons += _held_by_hosts(ladder, found.conclusion, details) + _withheld(view, ladder, details)
    details["sure"] = _sure(details).to_dict()
    return details, _basis(ladder), reasons


def _sure(details: dict[str, Any]) -> Sure:
    """Return how sure the class, the culprit and the time saved are."""
    confidence: Level = details["confidence"] or "low"
    ranks = (details["culprit"] or {}).get("ranks")
    return Sure(
        what=confidence,
        who=confidence if ranks else "unknown",
        how_much=level_of_saving(details["saves_ms"], details["saves_bounds_ms"], confidence),
    )


def _details(ladder: Ladder, verdict: Verdict) -> dict[str, Any]:
    """Return the keys of the metric ``verdict``."""
    found = verdict.conclusion
    steps = ladder.rungs.mean(axis=1)
    loss = ladder.loss_ns
    bounds = found.bounds
    saves = None if bounds is not None else found.saves_ns
    return {
        "verdict": found.verdict,
        "confidence": verdict.confidence,
        "culprit": _culprit(ladder, found),
        "loss_ms": milliseconds(loss),
        "loss_pct": 100 * ladder.loss_ratio,
        "saves_ms": None if saves is None else milliseconds(saves),
        "saves_pct": None if saves is None else 100 * saves / steps[-1],
        "saves_bounds_ms": None if bounds is None else [milliseconds(one) for one in bounds[:2]],
        "shares": {name: float(share) for name, share in zip(RUNGS, ladder.shares, strict=True)},
        "period": ladder.job.period,
        "ladder_ms": [milliseconds(float(step)) for step in steps],
        "hosts_launch_ms": milliseconds(float(ladder.host_need_ns.mean())) or None,
        "agreement": verdict.agreement,
        "also": [
            {
                "rung": rung,
                "verdict": one.verdict or "inconclusive",
                "culprit": _culprit(ladder, one),
                "saves_ms": None
                if one.saves_ns is None or one.bounds is not None
                else milliseconds(one.saves_ns),
                "why": one.why,
            }
            for rung, one in verdict.also
        ],
        "evidence": verdict.evidence,
        "ruled_out": list(verdict.ruled_out),
        "next": list(verdict.next),
        "why": found.why,
    }


def _culprit(ladder: Ladder, found: Conclusion) -> dict[str, Any] | None:
    """Return who is to blame, None where nobody is."""
    one = found.suspect
    if one is None and found.absent:
        keys = ("stage", "group", "pair", "host", "steps", "factor")
        return {"ranks": list(found.absent), **dict.fromkeys(keys), "recorded": False}
    if one is None:
        return None
    labels = ladder.job.labels
    return {
        "ranks": [labels[rank] for rank in one.ranks],
        "stage": one.stage,
        "group": one.group,
        "pair": None if one.pair is None else [labels[rank] for rank in one.pair],
        "host": one.host,
        "steps": None if one.steps is None else list(one.steps),
        "factor": one.factor,
        "recorded": True,
    }


def _held_by_hosts(ladder: Ladder, found: Conclusion, details: dict[str, Any]) -> list[Reason]:
    """Bound the time saved where hosts bind as soon as nobody is slow, and return why."""
    if details["saves_ms"] is None or not found.saves_ns:
        return []
    without = ladder.delayed - found.saves_ns
    bounds = bounds_of_hosts(ladder.typical_need_ns, ladder.delayed, without)
    details["saves_bounds_ms"] = bounds
    if bounds is not None:
        # Hosts cost nothing only as long as somebody else is slower.
        rest = [one for one in details["ruled_out"] if one["class"] != "host"]
        details["ruled_out"] = rest
    return why_host_bound(bounds)


def _withheld(view: View, ladder: Ladder, details: dict[str, Any]) -> list[Reason]:
    """Bound the time saved where records are lost, and return why.

    It is withheld where the culprit lacks records, or collectives lack members: what they waited
    for is not known then.
    """
    lost = lost_records(view)
    if not lost:
        return []
    least, most = details["saves_ms"], milliseconds(ladder.most_saved_ns)
    if least is not None or details["saves_bounds_ms"] is not None:
        details["saves_bounds_ms"] = [0.0, max(most, least or 0.0)]
    culprits = (details["culprit"] or {}).get("ranks", ())
    if not culprits or lost.keys() & set(culprits) or ladder.job.replay.unlinked:
        for one in (details, *details["also"]):
            one["saves_ms"] = None
        details["saves_pct"] = None
    return lost_reasons(lost)


def _basis(ladder: Ladder) -> dict[str, str]:
    job = ladder.job
    passes = "transfers" if job.stages.count > 1 else "launching thread or kernel names"
    types = set(job.units.type.tolist())
    if WHOLE in types:
        passes = "none: all computation of a rank in a step is one pass"
    return {
        "passes": passes,
        "step": job.step_basis,
        "clock": "common"
        if job.has_clock
        else "none: the length of a step is the median over ranks",
        "transfer": "shortest duration over the ranks of the call",
    }


metric_cal = verdict.document_of
