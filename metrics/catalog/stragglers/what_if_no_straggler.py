"""Step time if no rank were slower than the ranks that run the same program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.typical import SLOW
from ccltui.metrics.findings.replay.job_facts import job_facts, steps_left_out
from ccltui.metrics.findings.replay.ladder import MAX_UNLINKED, ladder_of
from ccltui.metrics.findings.replay.lines.step_replay import DeadlockError
from ccltui.metrics.findings.replay.savings import (
    ROUNDING,
    bounds_of_hosts,
    is_longer,
    per_step_rows,
    refused,
    saved_time,
    savings_of,
    why_host_bound,
    why_not_physical,
    withheld,
)
from ccltui.metrics.findings.replay.slowdown import KEYS as SLOWDOWN_KEYS
from ccltui.metrics.findings.replay.slowdown import Slowdown
from ccltui.metrics.findings.replay.verdict_rules import why_apart
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import require_ranks
from ccltui.metrics.view.data_quality import guessed_steps, ranks_of
from ccltui.metrics.view.match_quality import match_reasons
from ccltui.metrics.view.provenance import answer, source_of
from ccltui.parsers.numbers import percent

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.ladder import Ladder
    from ccltui.metrics.view.job_view import View

LEAST_OF_HOSTS: Final = 0.05
"""Share of a step that devices idle for their hosts, from which that is said."""
MAX_RANKS: Final = 8


_TYPICAL: Final = (
    f"the median of those that run its program and are within {percent(SLOW)} of their lower "
    "median, there and in the whole step"
)


_EQUALISED: Final = (
    "every pass takes the mean of its type over workers, stages, micro-batches and steps, every "
    "transfer the median of comparable transfers"
)
_REPAIRED: Final = "every pass takes the mean over stages of the typical worker of the stage"


@metric(
    unit="ratio",
    definition=(
        "Step time divided by the step time without stragglers. The latter is that of a replay of "
        "collectives and transfers in which every rank computes and idles between two calls as "
        "long as is typical of the ranks that run the same program and are not slow; a step takes "
        "at least as long as its launches. There is no value where less work makes the replayed "
        "step longer by more than rounding (a millionth)."
    ),
    needs=(
        "GPU kernels of all ranks",
        "step markers, or a call that recurs",
        "2 ranks that run the same program",
    ),
    facts=("arrivals", "lines"),
    keys=(
        "slowdown",
        "step_time_ms",
        "ideal_step_time_ms",
        "saved_ms",
        "saved_pct",
        "num_steps",
        "without_rank",
        "per_step",
        "replay_error_us",
        "replay_error_pct",
        "unlinked_share",
        "alone",
        "saved_bounds_ms",
        *SLOWDOWN_KEYS,
    ),
    label="slowdown by stragglers",
    higher_is_better=False,
)
def what_if_no_straggler(view: View) -> Result:
    """Step times without the excess of all ranks, and of each of those that caused most waiting."""
    require_ranks(view)
    source, warnings = source_of(view.ranks)
    _require_devices(view, source)
    try:
        return _slowdown(view, warnings)
    except Refusal as refusal:
        attributed, notes = _attributed(view)
        if attributed["equalised_slowdown"] is None or not ladder_of(view).compares:
            raise
        # What the slowdown within one program cannot tell does not refute that over all passes.
        return answer(
            what_if_no_straggler,
            view,
            dict.fromkeys(what_if_no_straggler.keys) | attributed,
            source="kernel",
            basis={"equalised": _EQUALISED, "repaired": _REPAIRED},
            reasons=refusal.reasons,
            warnings=[*warnings, *notes],
        )


def _slowdown(view: View, warnings: Sequence[str]) -> Result:
    ladder, found = _described(view), savings_of(view)
    job = ladder.job
    if len(found.alone) == len(job.labels) - len(job.out):
        raise refuse("not_applicable", "no two ranks run the same program")
    was, even = ladder.delayed, found.even
    if is_longer(was, even) and job.replay.unlinked <= MAX_UNLINKED:
        raise refuse("not_physical", why_not_physical(was, even))
    steps = tuple(job.table.step_ids.tolist())
    per_step = per_step_rows(steps, was, even)
    suspects = found.suspects(MAX_RANKS)
    healed = found.each_like_others([found.lines_of([rank]) for rank in suspects])
    without = {
        job.labels[rank]: saved_time(was, ends) for rank, ends in zip(suspects, healed, strict=True)
    }
    attributed, notes = _attributed(view)
    details: dict[str, Any] = {
        "slowdown": max(float(was.sum() / even.sum()), 1.0),
        **saved_time(was, even),
        "num_steps": len(steps),
        "without_rank": without,
        "per_step": per_step,
        "replay_error_us": float(np.abs(was - ladder.rungs[6]).max()) / 1000,
        "unlinked_share": job.replay.unlinked,
        "alone": list(found.alone),
        **attributed,
    }
    bounds = bounds_of_hosts(ladder.host_need_ns, was, even)
    details["saved_bounds_ms"] = bounds
    reasons = [
        Reason("missing_ranks", f"rank {n} is not replayed: {why}", rank=n)
        for n, why in job.out.items()
    ]
    reasons += [*why_host_bound(bounds), *_match_reasons(view), *steps_left_out(job)]
    reasons += guessed_steps(view)
    reasons += withheld(view, found, details, host_bound=bounds is not None)
    return answer(
        what_if_no_straggler,
        view,
        details,
        source="kernel",
        basis={
            "step": job.step_basis,
            "equalised": _EQUALISED,
            "repaired": _REPAIRED,
            "ideal": f"between two calls every rank takes {_TYPICAL} in the same step; one that "
            "runs it alone, of the passes of its stage",
            "replay": "collectives end as long after the last arrival as their shortest call took",
            "not_replayed": "the host: a step takes at least the time that its launches take",
            "longer": f"what replays longer by more than {ROUNDING:g} of itself has no ideal",
            "ranks": f"at most {MAX_RANKS} that take longer than comparable ranks",
        },
        reasons=reasons,
        warnings=[*warnings, *notes, *refused(without, per_step)],
    )


def _described(view: View) -> Ladder:
    """Return the replays of a job that they describe.

    Raises:
        Refusal: They do not.
    """
    try:
        ladder = ladder_of(view)
        refuted = ladder.refuted()
    except DeadlockError as error:
        raise refuse("unmatched_collectives", f"the job cannot be replayed: {error}") from None
    if ladder.job.period != "a step":
        raise refuse(
            "no_step_markers", "not every rank marks its steps, and no collective repeats regularly"
        )
    if refuted is not None:
        raise refuse("not_applicable", refuted)
    apart = why_apart(ladder.job, names_only=job_facts(view).names_only)
    if apart is not None:
        raise refuse("unmatched_collectives", apart)
    return ladder


def _attributed(view: View) -> tuple[dict[str, Any], list[str]]:
    """Slowdown against passes that are all alike; null with a warning if it is not told."""
    nothing: dict[str, Any] = dict.fromkeys(SLOWDOWN_KEYS)
    try:
        ladder = ladder_of(view)
        invalid = ladder.refuted() if ladder.job.marked else "steps are not marked"
        invalid = invalid or ladder.unequal_passes()
        if invalid is not None:
            return nothing, [f"equalised and repaired slowdown are not given: {invalid}"]
        found = Slowdown(ladder).details()
        error = 100 * ladder.replay_error
    except (Refusal, DeadlockError) as error_of_job:
        return nothing, [f"equalised and repaired slowdown are not given: {error_of_job}"]
    notes = []
    if found["equalised_slowdown"] is None:
        notes.append(
            "equalised slowdown is not given: with all passes alike the replayed step is longer"
        )
    host = found["host_slowdown"]
    if host > 1 + LEAST_OF_HOSTS:
        notes.append(
            f"devices wait for their hosts in {percent(1 - 1 / host)} of the step: without "
            "stragglers that part stays"
        )
    return {**found, "replay_error_pct": error}, notes


def _match_reasons(view: View) -> list[Reason]:
    try:
        return match_reasons(view)
    except Refusal as refusal:
        return list(refusal.reasons)


def _ranks_without(labels: Sequence[str]) -> str:
    verb = "has" if len(labels) == 1 else "have"
    return f"{ranks_of(labels)} {verb} no kernels with times"


def _require_devices(view: View, source: str) -> None:
    without = [
        label
        for label, one in view.facts.ranks.items()
        if not one.has_kernels or view.facts.named_calls[label].event_group != "gpu"
    ]
    if source != "kernel" or without:
        which = f": {_ranks_without(without)}" if without else ""
        raise refuse("no_gpu_events", f"a replay needs the device work of all ranks{which}")


metric_cal = what_if_no_straggler.document_of
