"""Check whether two jobs did the same work, from what cards, traces and operators state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ccltui.metrics.compare.comparable import Check
from ccltui.metrics.compare.job_table import JobTable, Work, WorkKey

Comparable = Literal["comparable", "not comparable", "unknown"]

_REQUIRED: Final = ("model", "batch", "ranks", "steps")
_REPORTED: Final = ("gpu", "precision", "parallel degrees", "step marker", "profiler")
"""Properties whose effect is compared, or that change what is recorded: differences are stated."""
_SAME_WORK: Final = 0.95
"""Share of the attributed device time of each side in operators and shapes that both sides have,
from which model and batch are the same: another batch or width changes the shapes of the matrix
products, in which most of the time is."""


@dataclass(frozen=True, slots=True)
class JobChecks:
    """Checks of two jobs; ``basis`` says what equality of model and batch rests on, "" on cards."""

    checks: tuple[Check, ...]
    basis: str = ""

    @property
    def verdict(self) -> Comparable:
        """Not comparable where a required property differs, unknown where one is not known."""
        standings = {check.standing for check in self.checks if check.required}
        if "different" in standings:
            return "not comparable"
        return "unknown" if "unknown" in standings else "comparable"

    @property
    def differences(self) -> tuple[str, ...]:
        """Required properties that are known to differ, a sentence each."""
        return tuple(c.sentence for c in self.checks if c.required and c.standing == "different")

    @property
    def unknown(self) -> tuple[str, ...]:
        """Required properties that are not known on both sides, a sentence each."""
        return tuple(c.sentence for c in self.checks if c.required and c.standing == "unknown")

    @property
    def reported(self) -> tuple[str, ...]:
        """Other properties that differ, a sentence each."""
        return tuple(
            c.sentence for c in self.checks if not c.required and c.standing == "different"
        )


def job_checks(a: JobTable, b: JobTable) -> JobChecks:
    """Compare the properties of two sides.

    Model and batch are equal where both sides are parts of one job, where the cards state the same,
    or, where the cards do not state them, where the operators have the same shapes.
    """
    basis = _basis(a, b)
    checks = []
    for name in _REQUIRED:
        of_a, of_b = (_value(side, name) for side in (a, b))
        if name in ("model", "batch") and basis and not (of_a and of_b and of_a != of_b):
            of_a = of_b = of_a or of_b or basis
        checks.append(Check(name, of_a, of_b, required=True))
    size_a, size_b = a.facts.get("world size", ""), b.facts.get("world size", "")
    # The number of ranks that were profiled is known; that of the job may not be.
    checks.append(Check("world size", size_a, size_b, required=bool(size_a and size_b)))
    checks += [
        Check(name, a.facts.get(name, ""), b.facts.get(name, ""), required=False)
        for name in _REPORTED
    ]
    return JobChecks(tuple(checks), basis)


def _value(side: JobTable, name: str) -> str:
    if name == "steps":
        return "marked" if side.has_steps else ""
    return side.facts.get(name, "")


def _basis(a: JobTable, b: JobTable) -> str:
    if a.job == b.job:
        return "one job"
    shares = _shared(a.operators, b.operators), _shared(b.operators, a.operators)
    return "same operators and shapes" if min(shares) >= _SAME_WORK else ""


def _shared(mine: Mapping[WorkKey, Work], others: Mapping[WorkKey, Work]) -> float:
    """Share of my attributed time in operators with shapes that the other side has; 0 without."""
    attributed = sum(work.total_ns for (name, _), work in mine.items() if name)
    shared = sum(work.total_ns for key, work in mine.items() if key[1] and key in others)
    return shared / attributed if attributed else 0.0
