"""Readings of a device's counters of clock, power and temperature."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct, structs

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import RankTrace

SM_CLOCK: Final = "sm_clock_mhz"
COUNTERS: Final[Mapping[str, tuple[str, float, float]]] = {
    SM_CLOCK: (r"SM Clock\b.*MHz", 10, 10_000),
    "memory_clock_mhz": (r"Memory Clock\b.*MHz", 10, 50_000),
    "power_w": (r"Power \(W\)", 1, 5_000),
    "temperature_c": (r"Temperature \(C\)", -50, 200),
}
"""Pattern of the names of each counter, as PyTorch writes them, and the least and most plausible
reading: a sensor that a machine does not have reads 0 or the largest number."""
SLOW_CLOCK: Final = 0.95
"""Clocks of like devices under like load differ by up to 3 %; more is throttling, or a limit."""


def typical_reading(trace: RankTrace, key: str, inside: Bool | None = None) -> float | None:
    """Return the median reading of a counter of a rank, None without a plausible one.

    Args:
        trace: the rank.
        key: one of `COUNTERS`.
        inside: mask of the readings that count; None for all.
    """
    if not len(trace.samples):
        return None
    rows = are_readings(trace, key)
    values = trace.samples.value[rows if inside is None else rows & inside]
    return float(median_along(values)) if len(values) else None


def are_readings(trace: RankTrace, key: str) -> Bool:
    """Return which samples of a rank are plausible readings of a counter."""
    pattern, least, most = COUNTERS[key]
    samples = trace.samples
    named = [one for one in distinct(samples.name) if re.match(pattern, trace.text(one))]
    rows = any_name(trace.strings, samples.name, named)
    return rows & (samples.value >= least) & (samples.value <= most)


class ClockGap(Struct, frozen=True):
    """SM clocks of slow devices and of their peers, MHz; ``labels`` are those of the slow ranks."""

    own_mhz: float
    peers_mhz: float
    labels: tuple[str, ...] = ("",)

    @property
    def text(self) -> str:
        """The two clocks in words."""
        own, peers = self.own_mhz / 1000, self.peers_mhz / 1000
        whose = "its" if len(self.labels) == 1 else "their"
        return f"{whose} SM clock is {own:.3g} GHz, {whose} peers' {peers:.3g} GHz"

    @property
    def reading(self) -> tuple[str, float, str]:
        """Key of the clock in the details of the metric ``sm``, its value and its unit."""
        return f"per_rank.{self.labels[0]}.{SM_CLOCK}", self.own_mhz, "MHz"


def clock_gap(own: Sequence[float | None], peers: Sequence[float | None]) -> ClockGap | None:
    """Return the gap where the clocks of devices are clearly below those of their peers."""
    mine, theirs = ([one for one in each if one is not None] for each in (own, peers))
    if not mine or not theirs:
        return None
    gap = ClockGap(float(np.median(mine)), float(np.median(theirs)))
    return gap if gap.own_mhz < SLOW_CLOCK * gap.peers_mhz else None


def clock_gap_of(details: Mapping[str, Any], labels: Sequence[str]) -> ClockGap | None:
    """Return the gap between some ranks and all others, from the details of the metric ``sm``."""
    rows = details.get("per_rank") or {}
    own = [rows[label][SM_CLOCK] for label in labels if label in rows]
    peers = [row[SM_CLOCK] for label, row in rows.items() if label not in labels]
    gap = clock_gap(own, peers)
    return None if gap is None else structs.replace(gap, labels=tuple(labels))
