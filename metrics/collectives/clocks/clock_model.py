"""Clock offsets of all ranks, and the conversion of times between clocks.

    corrected = own time - offset - drift * (corrected - reference time)

Corrected times are on the clock of the reference, the lowest rank of a component: a set of ranks
that common groups or hosts link to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

MAX_RESIDUAL_NS = 10_000_000
"""Largest residual (p95) of a known clock.

Ends of all-to-alls scatter by some ms. Beyond that, the matched calls do not end together.
"""

RESIDUALS: Final = 3
"""Residuals (p95) of the clocks by which two times of one instant may be apart: one is exceeded by
one end in twenty, and a wrong answer about one call is taken for all calls of a program."""

MAX_DRIFT_PPB = 500_000
"""Largest drift of a clock: oscillators of computers are right to some 100 ppm, and NTP corrects
at most 500 ppm. More is not a drift: the ends are not of one clock."""


class Clock(Struct, frozen=True):
    """Clock of one rank against the reference of its component.

    ``offset_ns`` is own time minus reference time, 0 where it is not ``known``: where nothing
    links the rank, or the ends scatter by more than ``MAX_RESIDUAL_NS``. The residuals (absolute
    deviations of single ends from it) are its error bar, over ``n`` collectives; that of two to
    four is wider than the residuals, and that of fewer is None.
    """

    offset_ns: int = 0
    residual_p50_ns: int | None = None
    residual_p95_ns: int | None = None
    n: int = 0
    drift_ppb: int | None = None  # None: not distinguishable from no drift
    component: int = MISSING  # lowest rank of the component
    known: bool = False


class ClockModel(Struct, frozen=True):
    """The clocks of all labels; ``evidence`` is the kind of collectives they are from."""

    clocks: Mapping[str, Clock]
    evidence: str  # "dependent collectives", "all-to-all", "uncertain matches", "none"
    residual_p95_ns: int | None = None  # over all ranks and collectives
    error_bar_ns: int | None = None  # the same, wider where few collectives tell it
    reference_ns: int = 0  # the time at which the offsets hold, for clocks that drift

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
        """Convert times of one rank (int64 ns, any shape) to the clock of the reference."""
        clock = self.clocks[label]
        constant = times_ns - np.int64(clock.offset_ns)
        if clock.drift_ppb is None:
            return np.asarray(constant)
        # the inverse of `own`: solve own = t + offset + rate * (t - reference_ns) for t
        rate = clock.drift_ppb / 1e9
        drifted = (constant - self.reference_ns) * (rate / (1 + rate))
        return np.asarray(constant - np.rint(drifted).astype(np.int64))

    def own(self, label: str, times_ns: I64) -> I64:
        """Convert times of the reference's clock (int64 ns, any shape) to that of one rank."""
        clock = self.clocks[label]
        constant = times_ns + np.int64(clock.offset_ns)
        if clock.drift_ppb is None:
            return np.asarray(constant)
        drifted = (times_ns - self.reference_ns) * (clock.drift_ppb / 1e9)
        return np.asarray(constant + np.rint(drifted).astype(np.int64))
