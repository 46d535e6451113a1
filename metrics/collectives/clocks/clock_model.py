"""The clock of each rank against the others', and times of one on the other.

A rank's time minus its offset is the time of the reference: the lowest rank of its component,
which is the set of ranks that shared groups, or a common host, link to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

MAX_RESIDUAL_NS = 10_000_000
"""Ends scatter by some ms in exchanges; by more, what was matched does not end together at all."""


@dataclass(frozen=True, slots=True)
class Clock:
    """One rank's clock against the reference of its component.

    ``offset_ns`` is own time minus reference time, 0 where it is not ``known``: where nothing
    links it, or ends scatter by more than ``MAX_RESIDUAL_NS``. The residuals (how far single ends
    are from it) are its error bar, over ``n`` collectives; None without.
    """

    offset_ns: int = 0
    residual_p50_ns: int | None = None
    residual_p95_ns: int | None = None
    n: int = 0
    drift_ppb: int | None = None  # None: not distinguishable from no drift
    component: int = MISSING  # lowest rank of the component
    known: bool = False


@dataclass(frozen=True, slots=True)
class ClockModel:
    """The clocks of all labels, from ``evidence``: what kind of collectives spoke."""

    clocks: Mapping[str, Clock]
    evidence: str  # "dependent collectives", "all-to-all", "uncertain matches", "none"
    residual_p95_ns: int | None = None  # over all ranks and collectives
    reference_ns: int = 0  # the time at which the offsets hold, where a clock drifts

    @property
    def offsets_ns(self) -> Mapping[str, int]:
        """Offset of every label, 0 where it is not known."""
        return {label: clock.offset_ns for label, clock in self.clocks.items()}

    def comparable(self, labels: Sequence[str]) -> bool:
        """Whether the clocks of ``labels`` are known against each other."""
        clocks = [self.clocks[label] for label in labels]
        return all(clock.known for clock in clocks) and (
            len({clock.component for clock in clocks}) == 1
        )

    def corrected(self, label: str, times_ns: I64) -> I64:
        """``times_ns`` of one rank (int64, any shape) on the reference's clock."""
        clock = self.clocks[label]
        constant = times_ns - np.int64(clock.offset_ns)
        if clock.drift_ppb is None:
            return np.asarray(constant)
        rate = clock.drift_ppb / 1e9
        drifted = (constant - self.reference_ns) * (rate / (1 + rate))
        return np.asarray(constant - np.rint(drifted).astype(np.int64))

    def own(self, label: str, times_ns: I64) -> I64:
        """Times of the reference's clock (int64, any shape) on that of one rank."""
        clock = self.clocks[label]
        constant = times_ns + np.int64(clock.offset_ns)
        if clock.drift_ppb is None:
            return np.asarray(constant)
        drifted = (times_ns - self.reference_ns) * (clock.drift_ppb / 1e9)
        return np.asarray(constant + np.rint(drifted).astype(np.int64))
