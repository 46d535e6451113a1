"""Step times of the job from the step markers of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.arrays.statistics import mean
from ccltui.metrics.model.rank_steps import Step
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.parsers.missing_ranks import ranges_text
from ccltui.parsers.numbers import time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


RUNS_AHEAD: Final = 1.25
"""Multiple of the marker's length from which on the time of the devices contradicts it."""


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


def device_period_ns(view: View, times: StepTimes) -> float | None:
    """Return how long devices take for a step, in ns: from end to end of consecutive steps.

    It is the mean over steps of the longest of any rank; None without device work or with no two
    consecutive steps. Collectives end on all ranks at once and begin on each at another time: from
    first work to first work a late rank would count in one step, and those that wait in the next.
    """
    periods: dict[int, int] = {}
    wanted = set(times.ids)
    for rank in view.ranks:
        if not rank.facts.has_device:
            continue
        ends = {step: end for step, _, end in rank.work_windows if step in wanted}
        for step, end in ends.items():
            if step - 1 in ends:
                periods[step] = max(periods.get(step, 0), end - ends[step - 1])
    return mean(list(periods.values()))


def warnings_of_markers(view: View, times: StepTimes) -> list[str]:
    """Return a warning where markers are shorter than what the devices take for a step.

    A host that waits for nothing is done with a step long before its device: over a few steps
    nothing limits how far it gets ahead.
    """
    marked, period = mean(times.slowest_ns), device_period_ns(view, times)
    if marked is None or period is None or period <= RUNS_AHEAD * marked:
        return []
    return [
        f"the markers last {time_text(marked / 1e6)}, and device work of a step takes "
        f"{time_text(period / 1e6)}: the hosts run ahead of their devices, and a step takes longer "
        "than its marker"
    ]


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
            one = len(extra) == 1
            named = f"step {extra[0]}" if one else f"steps {ranges_text(extra)}"
            verb = "is" if one else "are"
            text = f"{named} of rank {label} {verb} not on every rank and {verb} left out"
            reasons.append(Reason("no_step_markers", text, rank=label))
    return reasons
