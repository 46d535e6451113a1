"""The rank that keeps the others waiting in each step of a job, or why nobody is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.causes.roots import BLAMELESS_CAUSES, StepRoot, reliable_step_roots
from ccltui.metrics.findings.slow_steps import slow_steps
from ccltui.metrics.unavailable import Refusal
from ccltui.parsers.numbers import duration

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


class StepCulprit(Struct, frozen=True):
    """The rank that keeps the others waiting in one step.

    Attributes:
        step: id of the step.
        label: the rank, None where none is to be named.
        cause: why it was late, None without a rank.
        wait_ns: exposed waiting of all other ranks together behind it at collectives; 0 where no
            collective tells it.
        sure: how sure the cause and the rank are.
        why: the reason where no rank is named.
    """

    step: int
    label: str | None = None
    cause: str | None = None
    wait_ns: int = 0
    sure: Sure = Sure(what="unknown")
    why: str = ""


class StepCulprits(Struct, frozen=True):
    """Culprits by step id; ``why`` is the reason where no collective tells anything of a step."""

    by_step: Mapping[int, StepCulprit]
    why: str = ""

    def of(self, step: int) -> StepCulprit:
        """Return the culprit of a step, or the reason why there is none."""
        nobody = StepCulprit(step, why=self.why or "no rank is late at any of its collectives")
        return self.by_step.get(step, nobody)


def step_culprits(view: View) -> StepCulprits:
    """Return the rank that keeps the others waiting, for each step.

    Of a slow step that is the rank which made it slow, if one is named.
    """
    why, found = "", {}
    try:
        found = {step: _culprit(one) for step, one in reliable_step_roots(view).items()}
    except Refusal as refusal:
        why = str(refusal)
    for one in slow_steps(view):
        if one.label is not None:
            found[one.step] = StepCulprit(one.step, one.label, one.cause, one.wait_ns, one.sure)
    return StepCulprits(found, why)


def _culprit(one: StepRoot) -> StepCulprit:
    named = one.roots.named
    if named is None:
        why = one.roots.why_nobody or "the recording begins here, so earlier causes are not in it"
        return StepCulprit(one.step, why=why)
    wait = one.behind_ranks().get(named.label, named.wait_ns)
    if named.cause in BLAMELESS_CAUSES:
        why = f"rank {named.label} comes last, and nothing recorded shows why"
        return StepCulprit(one.step, why=f"{why} ({duration(wait)} of waiting)")
    return StepCulprit(one.step, named.label, named.cause, wait, named.sure)
