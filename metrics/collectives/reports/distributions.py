"""Distributions of lag, wait and duration over the selected collectives, as quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.collectives.lateness.lag_tables import distribution
from ccltui.metrics.view.collective_selection import chosen_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64

QUANTILES: Final = 101
"""Number of quantiles of a curve: 0 %, 1 %, ... 100 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Quantiles of times, int64 ns.

    Attributes:
        name: "lag" (of a collective), "wait" or "duration" (of one rank at a collective).
        times_ns: the smallest time that at least i % of all do not exceed, [QUANTILES].
        summary: p50, p95 and max in us, and n, as in `straggler_lag`.
    """

    name: str
    times_ns: I64
    summary: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, times in us."""
        return {**self.summary, "quantiles_us": [microseconds(t) for t in self.times_ns.tolist()]}


def distributions(view: View) -> tuple[Distribution, ...]:
    """Return the distributions of lag, wait and duration of the collectives of `straggler_lag`.

    Lag and wait are clock-free. Waits and durations are those of every member.

    Raises:
        Refusal: no selected collective can tell who is late.
    """
    chosen = chosen_of(view)
    times = {
        "lag": [one.lateness.lag_ns for one in chosen],
        "wait": [one.lateness.wait_ns.ravel() for one in chosen],
        "duration": [one.dur_ns.ravel() for one in chosen],
    }
    return tuple(_distribution(name, np.concatenate(parts)) for name, parts in times.items())


def _distribution(name: str, times_ns: I64) -> Distribution:
    ordered = np.sort(times_ns)
    percent = np.arange(QUANTILES, dtype=np.int64)
    # Nearest rank: the ceil(n * share)-th smallest, in integers, because 0.07 * 100 is above 7.
    rank = np.maximum(-(-percent * len(ordered) // (QUANTILES - 1)), 1)
    return Distribution(name, ordered[rank - 1], distribution(times_ns))
