"""Findings on single steps that take longer than the others, and causes that only these have."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Finding, Where
from ccltui.metrics.findings.rank_time.idle_causes import idle_of
from ccltui.metrics.findings.slow_steps import SlowStep, slow_steps
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.words import numbers_text, sentence
from ccltui.metrics.workload.job_steps import longer_by_nature
from ccltui.parsers.numbers import counted, percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

SLOW_STEP: Final = 1.3
"""A step is slow from this multiple of the median step on: less is the scatter of steps."""
NEARLY_ALL: Final = 0.9
"""Share of the idle time of one cause in slow steps from which on the others do not have it."""
EXPLAINS: Final = 0.5
"""Share of the excess of slow steps from which on idle time of one cause makes them slow."""
LEAST_STEPS: Final = 3
"""Of fewer steps none is the usual one."""
MOST_NAMED: Final = 4
"""Steps that are listed by their numbers."""


class SlowLengths(Struct, frozen=True):
    """Steps that take much longer than the median step.

    Attributes:
        steps: their ids.
        times: the longest as a multiple of the median step, each on its slowest rank.
        excess_ns: what they take beyond the median step, mean over ranks.
        share: that as a share of all steps.
        who: the longest of them, where one rank made all of them slow; None where none is named.
    """

    steps: tuple[int, ...]
    times: float
    excess_ns: float
    share: float
    who: SlowStep | None

    @property
    def names(self) -> str:
        """The steps in words."""
        if len(self.steps) > MOST_NAMED:
            return counted(len(self.steps), "step")
        noun = "step" if len(self.steps) == 1 else "steps"
        return f"{noun} {numbers_text([str(step) for step in self.steps])}"

    @property
    def longer(self) -> str:
        """How much longer they take, without the steps."""
        up_to = "" if len(self.steps) == 1 else "up to "
        return f"{up_to}{self.times:.1f} times as long as the others"

    @property
    def takes(self) -> str:
        """The verb of these steps."""
        return "takes" if len(self.steps) == 1 else "take"


class InSlowSteps(Struct, frozen=True):
    """Sentences on idle time that slow steps alone have: a part of the first, the next, and how."""

    text: str
    more: str
    do: str


def slow_lengths(view: View, ranks: Sequence[RankView]) -> SlowLengths | None:
    """Return the slow steps of ranks; None without any, or where many are."""
    by_rank: dict[int, list[int]] = {}
    prefill = frozenset[int]().union(*(longer_by_nature(rank) for rank in ranks))
    for rank in ranks:
        for step, start, end in rank.step_windows:
            if step not in prefill:
                by_rank.setdefault(step, []).append(end - start)
    lengths = {step: max(found) for step, found in by_rank.items()}
    if len(lengths) < LEAST_STEPS:
        return None
    middle = float(median_along(list(lengths.values())))
    slow = {step: ns for step, ns in lengths.items() if middle and ns >= SLOW_STEP * middle}
    if not slow or len(slow) > len(lengths) / 3:
        return None
    # One delay is in a step of the late rank, and in the next one of those that wait for it.
    means = {step: sum(found) / len(found) for step, found in by_rank.items()}
    usual = float(median_along(list(means.values())))
    excess = sum(max(means[step] - usual, 0.0) for step in slow)
    steps = tuple(sorted(slow))
    return SlowLengths(
        steps,
        max(slow.values()) / middle,
        excess,
        excess / sum(means.values()),
        _who(view, steps),
    )


def in_slow_steps(
    slow: SlowLengths, ranks: Sequence[RankView], total_ns: int, causes: Sequence[str]
) -> InSlowSteps | None:
    """Return that idle time of some causes makes steps slow; None where other steps have it too.

    Args:
        slow: the slow steps.
        ranks: all ranks with device work.
        total_ns: all idle time of these causes.
        causes: the causes, which one finding states.
    """
    inside = sum(idle_of(rank).inside(cause, slow.steps) for rank in ranks for cause in causes)
    mean_ns = inside / len(ranks)
    if slow.who is not None or inside < NEARLY_ALL * total_ns:
        return None
    if mean_ns < EXPLAINS * slow.excess_ns:
        return None
    much = time_text(milliseconds(mean_ns))
    few = "it is a warm-up step" if len(slow.steps) == 1 else "they are warm-up steps"
    return InSlowSteps(
        f", {'all' if inside == total_ns else 'nearly all'} of it in {slow.names}: {much}",
        sentence(f"{slow.names} {slow.takes} {slow.longer}"),
        f"If {few}, leave {'it' if len(slow.steps) == 1 else 'them'} out with --steps.",
    )


def slow_finding(
    view: View,
    ranks: Sequence[RankView],
    slow: SlowLengths,
    period_ms: float,
    blamed: Container[str],
) -> Finding:
    """Return the finding on slow steps; it names a rank only where no other one blames it."""
    steps = slow.steps
    who = None if slow.who is None or slow.who.label in blamed else slow.who
    much = f"{percent(slow.share)} of the time"
    text = (
        f"{slow.names} {slow.takes} {slow.longer}: {much}"
        if who is None
        else f"rank {who.label} makes {slow.names} take {slow.longer}: {much}"
    )
    how = (
        "a step lasts from its first work to that of the next, on its slowest rank; the share is "
        "the mean over ranks, and the other findings hold this time too"
    )
    return Finding(
        kind="slow_steps",
        text=sentence(text),
        more=sentence(how) if who is None else f"{sentence(who.why)} {sentence(how)}",
        where=Where(ranks=() if who is None else (str(who.label),), steps=steps),
        share=slow.share,
        cost_ms=period_ms * slow.share,
        saves_ms=period_ms * slow.share,
        # A few steps are no proof of a fault: the work of ranks may vary by chance.
        sure=Sure(what="high", who="unknown" if who is None else "medium", how_much="medium"),
        place={"rank": ranks[0].label if who is None else who.rank, "step": steps[0]},
        do="Compare a slow step with a normal one in the Steps pane; leave warm-up steps out with "
        "--steps.",
    )


def _who(view: View, steps: Sequence[int]) -> SlowStep | None:
    """Return how the longest of these steps became slow, if one rank made all of them slow.

    None where that is not known, or known with low confidence.
    """
    try:
        causes = {one.step: one for one in slow_steps(view)}
    except Refusal:  # the steps of these ranks do not match: nobody is told from them
        return None
    told = [causes[step] for step in steps if step in causes]
    if len(told) < len(steps) or len({one.label for one in told}) > 1 or told[0].label is None:
        return None
    if any(one.sure.who not in ("medium", "high") for one in told):
        return None
    return max(told, key=lambda one: one.over_ns)
