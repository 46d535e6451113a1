"""Step time if no rank were slower than the ranks that run the same program."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.typical import SLOW
from ccltui.metrics.attribution.job_verdict import ladder_of, names_only
from ccltui.metrics.attribution.lines.left_out import (
    steps_left_out,
)
from ccltui.metrics.attribution.ranks_apart import why_apart
from ccltui.metrics.attribution.saved.host_bounds import needs_of_steps
from ccltui.metrics.attribution.saved.what_if_bounds import MAX_UNLINKED, doubts, withheld
from ccltui.metrics.attribution.saved.within_program import WithinProgram, posts_ahead
from ccltui.metrics.attribution.slowdown import KEYS as SLOWDOWN_KEYS
from ccltui.metrics.attribution.slowdown import Slowdown
from ccltui.metrics.collectives.lateness.blame import tally
from ccltui.metrics.collectives.lateness.lag_tables import match_table
from ccltui.metrics.collectives.replay.replay_order import DeadlockError
from ccltui.metrics.collectives.replay.saved_steps import (
    ROUNDING,
    is_longer,
    per_step_rows,
    refused,
    saved_time,
    why_not_physical,
)
from ccltui.metrics.collectives.replay.what_if import StepEnds, WhatIf
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import chosen_of, parts_of, require_ranks
from ccltui.metrics.view.data_quality import guessed_steps, some_of
from ccltui.metrics.view.match_quality import match_reasons
from ccltui.metrics.view.provenance import answer, source_of

if TYPE_CHECKING:
    from ccltui.metrics.attribution.ladder import Ladder
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import Bool

MAX_REPLAY_ERROR: Final = 0.05
"""Share of the mean step by which the unchanged replay may miss any step."""
MIN_AGREED: Final = 0.5
"""Share of the time saved that the replay of passes must save too: this one also makes idle times
alike, and ranks that idle for each other outside of calls save what only one of them can."""
MAX_RANKS: Final = 8
MAX_REPLAYED: Final = 500_000
"""So many calls are replayed for ranks one at a time, but one rank at least."""


_TYPICAL: Final = (
    f"the median of those that run its program and are within {SLOW:.0%} of their lower median, "
    "there and in the whole step"
)


_EQUALISED: Final = (
    "every pass takes the mean of its type over workers, stages, micro-batches and steps, every "
    "transfer the median of its like"
)
_REPAIRED: Final = "every pass takes the mean over stages of the typical worker of the stage"


@metric(
    unit="ratio",
    definition=(
        "Step time divided by the step time without stragglers: collectives and transfers are "
        "replayed with every rank taking, between two calls, the median of the ranks that run "
        "the same program and are not slow; launches are not replayed, so a device that waits for "
        "its host still waits, and there is no value where less work makes the step longer by "
        "more than rounding (a millionth)."
    ),
    needs=(
        "GPU kernels of all ranks",
        "step markers, or a call that recurs",
        "2 ranks that run the same program",
    ),
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
    headline="slowdown",
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
    unknown = _unknown_steps(view)
    try:
        ladder = _valid_ladder(view)
        if unknown is not None and (ladder is None or ladder.job.period != "a step"):
            raise unknown
        apart = None if ladder is None else why_apart(ladder.job, names_only=names_only(view))
        if apart is not None:
            raise refuse("unmatched_collectives", apart)
        if ladder is not None and (
            unknown is not None
            or posts_ahead(ladder.job)
            # Without launches nothing orders the calls that were queued behind transfers.
            or (ladder.job.stages.count > 1 and not WithinProgram(ladder).has_launches)
        ):
            return _by_passes(view, ladder, warnings)
        try:
            return _answered(view, WhatIf(view), ladder, warnings)
        except Refusal as refusal:
            if ladder is None or refusal.reasons[0].code != "not_physical":
                raise
            return _by_passes(view, ladder, warnings)
        except DeadlockError:
            if ladder is None:
                raise
            return _by_passes(view, ladder, warnings)
    except DeadlockError as error:
        raise refuse("unmatched_collectives", f"the job cannot be replayed: {error}") from None


def _valid_ladder(view: View) -> Ladder | None:
    """The ladder of the job where it describes it, None elsewhere."""
    try:
        ladder = ladder_of(view)
        return ladder if ladder.invalid() is None else None
    except (Refusal, DeadlockError):
        return None


def _by_passes(
    view: View,
    ladder: Ladder,
    warnings: Sequence[str],
    contradicting: Sequence[float] | None = None,
) -> Result:
    """The same from the positions of programs; ``contradicting`` are bounds of two replays, ns."""
    found, job = WithinProgram(ladder), ladder.job
    was, even = found.recorded, found.even
    if is_longer(was, even):
        raise refuse("not_physical", why_not_physical(was, even))
    if len(found.alone) == len(job.labels) - len(job.out):
        raise refuse("not_applicable", "no two ranks run the same program")
    steps = tuple(job.table.step_ids.tolist())
    per_step = per_step_rows(steps, was, even)
    without = {
        job.labels[rank]: saved_time(was, found.without(rank)) for rank in found.suspects(MAX_RANKS)
    }
    attributed, notes = _attributed(view)
    details: dict[str, Any] = {
        "slowdown": max(float(was.sum() / even.sum()), 1.0),
        **saved_time(was, even),
        "num_steps": len(steps),
        "without_rank": without,
        "per_step": per_step,
        "replay_error_us": float(np.abs(was - ladder.rungs[6]).max()) / 1000,
        "unlinked_share": job.table.unlinked,
        "alone": list(found.alone),
        **attributed,
    }
    reasons = [
        Reason("missing_ranks", f"rank {n} is not replayed: {why}", rank=n)
        for n, why in job.out.items()
    ]
    details["saved_bounds_ms"], why = doubts(
        ladder.host_need_ns, was, even, contradicting, "passes"
    )
    reasons += [*why, *steps_left_out(job), *guessed_steps(view)]
    reasons += withheld(view, ladder, details, host_bound=_is_bound(why))
    return answer(
        what_if_no_straggler,
        view,
        details,
        source="kernel",
        basis={
            "step": job.step_basis,
            "ideal": f"between two calls every rank takes {_TYPICAL} in the same step; one that "
            "runs it alone, of the passes of its stage",
            "replay": "collectives end as long after the last arrival as their shortest call took",
            "not_replayed": "the host: a step takes at least the time that its launches take",
        },
        reasons=reasons,
        warnings=[*warnings, *notes, *refused(without, per_step)],
    )


def _answered(
    view: View, what_if: WhatIf, ladder: Ladder | None, warnings: Sequence[str]
) -> Result:
    measured = what_if.measured
    chosen, left_out = _chosen_steps(view, measured, ladder)
    error = _replay_error(measured, what_if.unchanged)
    mean = float(measured.length_ns.mean())
    if error > MAX_REPLAY_ERROR * mean:
        raise refuse(
            "not_applicable",
            f"replayed unchanged, a step is {error / mean:.1%} of a step off its measured end: "
            "the replay does not know what these ranks wait for",
        )
    alone = _alone(what_if)
    if ladder is not None and not set(alone) <= set(WithinProgram(ladder).alone):
        # Their passes have a like, though not their times between two calls.
        with suppress(Refusal):
            return _by_passes(view, ladder, warnings)
    if not what_if.segments:
        raise refuse("not_applicable", "no two ranks run the same program")
    if ladder is not None and what_if.unlinked_share > MAX_UNLINKED >= ladder.job.table.unlinked:
        with suppress(Refusal):
            return _by_passes(view, ladder, warnings)
    was = what_if.unchanged.length_ns[chosen]
    taken = np.array(measured.measured)[chosen]
    need = needs_of_steps(ladder, taken, was)
    ideal = np.maximum(what_if.even().length_ns[chosen], need)
    if is_longer(was, ideal):
        raise refuse("not_physical", why_not_physical(was, ideal))
    saved_ns = float((was - ideal).mean())
    bounds = None if ladder is None else WithinProgram(ladder).bounds(taken, saved_ns)
    # This one makes idle times alike too: where it saves less, it does not follow the program.
    if ladder is not None and bounds is not None and saved_ns <= bounds[0]:
        with suppress(Refusal):
            return _by_passes(view, ladder, warnings, bounds)
    beyond = bounds is not None and bounds[0] < MIN_AGREED * saved_ns
    chosen_replay = "" if beyond else "the times between collectives"
    bounded, why = doubts(need, was, ideal, bounds, chosen_replay)
    without = {
        label: saved_time(was, np.maximum(what_if.without(label).length_ns[chosen], need))
        for label in _suspects(view, what_if)
    }
    steps = np.array(measured.measured)[chosen].tolist()
    per_step = per_step_rows(steps, was, ideal)
    details: dict[str, Any] = {
        "slowdown": max(float(was.sum() / ideal.sum()), 1.0),
        **saved_time(was, ideal),
        "num_steps": len(was),
        "without_rank": without,
        "per_step": per_step,
        "replay_error_us": error / 1000,
        "replay_error_pct": 100 * error / mean,
        "unlinked_share": what_if.unlinked_share,
        "alone": alone,
        "saved_bounds_ms": bounded,
    }
    attributed, notes = _attributed(view)
    details |= attributed
    warnings = [*warnings, *notes]
    if alone:
        warnings = [*warnings, f"no other rank runs the program of rank {', '.join(alone[:8])}"]
    warnings = [*warnings, *refused(without, per_step)]
    return answer(
        what_if_no_straggler,
        view,
        details,
        source="kernel",
        basis={
            "step": "from the last end of device work of the step before, over ranks; the first of "
            "several steps is left out, an only one counts from the first device work",
            "equalised": _EQUALISED,
            "repaired": _REPAIRED,
            "ideal": f"between two calls every rank takes {_TYPICAL}",
            "replay": "collectives end as long after the last arrival as they did",
            "not_replayed": "the host: a step takes at least the time that its launches take",
            "longer": f"what replays longer by more than {ROUNDING:g} of itself has no ideal",
            "ranks": f"at most {MAX_RANKS} that caused most waiting; of long jobs the first alone",
        },
        reasons=[
            *_reasons(view, what_if),
            *why,
            *left_out,
            *withheld(view, ladder, details, host_bound=_is_bound(why), beyond=beyond),
        ],
        warnings=warnings,
    )


def _attributed(view: View) -> tuple[dict[str, Any], list[str]]:
    """Slowdown against passes that are all alike; null with a warning if it is not told."""
    nothing: dict[str, Any] = dict.fromkeys(SLOWDOWN_KEYS)
    try:
        ladder = ladder_of(view)
        invalid = ladder.invalid() if ladder.job.marked else "steps are not marked"
        invalid = invalid or ladder.unequal_passes()
        if invalid is not None:
            return nothing, [f"equalised and repaired slowdown are not told: {invalid}"]
        found = Slowdown(ladder).details()
        error = 100 * ladder.replay_error
    except (Refusal, DeadlockError) as error_of_job:
        return nothing, [f"equalised and repaired slowdown are not told: {error_of_job}"]
    notes = []
    if found["equalised_slowdown"] is None:
        notes.append(
            "equalised slowdown is not told: with all passes alike the replayed step is longer"
        )
    host = found["host_slowdown"]
    if host > 1 + MAX_REPLAY_ERROR:
        notes.append(
            f"devices idle for the host in {1 - 1 / host:.0%} of the step: of that nothing is "
            "saved where the other ranks are faster"
        )
    return {**found, "replay_error_pct": error}, notes


def _reasons(view: View, what_if: WhatIf) -> list[Reason]:
    parts = parts_of(view)
    try:
        chosen = chosen_of(view)
    except Refusal as refusal:
        return list(refusal.reasons)
    match = match_table(chosen, [(part.arrived, part.rows) for part in parts])
    reasons = [*match_reasons(view, match), *guessed_steps(view)]
    share = what_if.unlinked_share
    if share > MAX_UNLINKED:
        text = (
            f"{share:.0%} of the time in collectives is of calls that are matched to none with "
            "confidence: it is replayed as it was, and less is saved than could be"
        )
        reasons.append(Reason("unmatched_collectives", text))
    return reasons


def _require_devices(view: View, source: str) -> None:
    without = [
        label
        for label, one in view.facts.ranks.items()
        if not one.has_kernels or view.facts.named_calls[label].event_group != "gpu"
    ]
    if source != "kernel" or without:
        which = f": rank {some_of(without)} has no kernels with times" if without else ""
        raise refuse("no_gpu_events", f"a replay needs the device work of all ranks{which}")


def _unknown_steps(view: View) -> Refusal | None:
    """Why the times between collectives cannot be replayed on one clock, None where they can."""
    labels = [label for label in view.facts.ranks if label not in view.matches.skipped]
    if not all(one.marked_steps[0] for one in view.facts.ranks.values()):
        return refuse("no_step_markers", "not every rank marks its steps, and no call recurs")
    if not view.clocks.comparable(labels):
        return refuse("clock_unknown", "how the ranks lie to each other at the start is not known")
    return None


def _chosen_steps(view: View, ends: StepEnds, ladder: Ladder | None) -> tuple[Bool, list[Reason]]:
    """Mask of the measured steps that the view selects, and why others are left out.

    Steps of which some ranks recorded only a part are left out where others remain.
    """
    if not ends.steps:
        raise refuse("no_step_markers", "no step that all ranks have")
    wanted = {step.id for rank in view.ranks for step in rank.steps}
    partly = () if ladder is None else ladder.job.partly
    chosen = np.array([step in wanted for step in ends.measured])
    if not chosen.any():
        raise refuse("window_empty", "no measured step (the first of several is none) is selected")
    whole = chosen & ~np.isin(ends.measured, partly)
    return (whole if whole.any() else chosen), [] if ladder is None else steps_left_out(ladder.job)


def _replay_error(measured: StepEnds, replayed: StepEnds) -> float:
    return float(np.abs(measured.end_ns - replayed.end_ns).max())


def _is_bound(reasons: Sequence[Reason]) -> bool:
    return any(reason.code == "host_bound" for reason in reasons)


def _alone(what_if: WhatIf) -> list[str]:
    """Ranks whose program no other rank runs in any step."""
    together = {rank for one in what_if.segments for rank in one.ranks}
    return [label for rank, label in enumerate(what_if.labels) if rank not in together]


def _suspects(view: View, what_if: WhatIf) -> list[str]:
    """Ranks to leave out one at a time: those that caused the most waiting, if they caused any."""
    alone = set(_alone(what_if))
    try:
        found = tally(chosen_of(view), len(view.ranks))
    except Refusal:
        return []
    order = np.argsort(-found.caused_wait_ns, kind="stable")
    labels = [view.ranks[i].label for i in order if found.caused_wait_ns[i] > 0]
    calls = sum(len(item.calls) for item in view.match_inputs)
    count = min(MAX_RANKS, max(1, MAX_REPLAYED // max(calls, 1)))
    return [label for label in labels if label not in alone][:count]


metric_cal = what_if_no_straggler.document_of
