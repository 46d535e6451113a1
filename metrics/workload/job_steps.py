"""Step times of the job from the step markers of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from ccltui.metrics.model.rank_steps import Step
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


class StepTimes(Struct, frozen=True):
    """Steps that every marking rank has, in order; ``slowest_ns`` is the maximum over ranks."""

    ids: tuple[int, ...]
    slowest_ns: tuple[int, ...]
    per_rank: Mapping[str, Mapping[int, Step]]
    reasons: tuple[Reason, ...]


def step_times(view: View) -> StepTimes:
    """Return the marker times of the selected steps.

    Raises:
        Refusal: No rank marks a step, or no step is marked on all ranks.
    """
    marked = {rank.label: {s.id: s for s in rank.steps} for rank in view.ranks if rank.steps}
    if not marked:
        known = sum(len(rank.facts.marked_steps[0]) for rank in view.ranks)
        if known:
            raise refuse("window_empty", f"none of the {known} step markers starts in the window")
        raise refuse("no_step_markers", "no ProfilerStep or other step marker on any rank")
    ids = set.intersection(*(set(steps) for steps in marked.values()))
    if not ids:
        raise refuse("no_step_markers", "no step is marked on all ranks")
    order = tuple(sorted(ids))
    slowest = tuple(max(steps[i].dur_ns for steps in marked.values()) for i in order)
    return StepTimes(order, slowest, marked, tuple(_gaps(view, marked, ids)))


def _gaps(view: View, marked: Mapping[str, Mapping[int, Step]], common: set[int]) -> list[Reason]:
    """Reasons for ranks that mark no step, or steps that other ranks do not mark."""
    reasons = [
        Reason("no_step_markers", f"rank {rank.label} marks no step", rank=rank.label)
        for rank in view.ranks
        if rank.label not in marked
    ]
    for label, steps in marked.items():
        extra = sorted(set(steps) - common)
        if extra:
            named = ", ".join(str(i) for i in extra)
            text = f"step {named} of rank {label} is not on every rank and is left out"
            reasons.append(Reason("no_step_markers", text, rank=label))
    return reasons
