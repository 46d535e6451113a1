"""Everything one run of the bench found, and what it was meant to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.compare import GENERAL, JSON, ORJSON, OURS, PEER, Comparison
from bench.growth import Opening, Point, bound_mib
from bench.measure import Spread
from bench.nsys import FirstMetric


@dataclass(frozen=True, slots=True)
class FirstSight:
    """Seconds from the start of the explorer, and what stood on its screen."""

    screen_s: float  # anything at all
    metric_s: float  # the first metric with a value
    all_s: float  # every rank is loaded
    line: str  # the row of the screen that held the value


_FASTER = {JSON: (10.0, 6.0), ORJSON: (5.0, 3.0), PEER: (25.0, 10.0), GENERAL: (3.0, 3.0)}
"""CPU seconds against ccltui: on the profiler's own layout, and on the others."""
_KERNEL_S = 0.15
_SECOND_OPENING_CPU_S = 0.3
_FIRST_METRIC_S = 1.0
_NSYS_METRIC_S = 5.0
_NSYS_PEAK_MIB = 300.0


@dataclass(frozen=True, slots=True)
class Results:
    """One run. Empty parts were not asked for."""

    machine: Mapping[str, str | int]
    comparisons: tuple[Comparison, ...] = ()
    events: tuple[Point, ...] = ()
    ranks: tuple[Point, ...] = ()
    openings: tuple[Opening, ...] = ()
    kernels: Mapping[str, Spread] | None = None
    screens: Mapping[str, FirstSight] | None = None
    nsys: FirstMetric | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and the median that was measured."""

    subject: str
    goal: float
    measured: float
    unit: str
    better: Literal["more", "less"]

    @property
    def met(self) -> bool:
        """Whether the median is at least as good as the goal."""
        if self.better == "more":
            return self.measured >= self.goal
        return self.measured <= self.goal


def verdicts(results: Results) -> Iterator[Verdict]:
    """Every goal that this run can judge."""
    for comparison in results.comparisons:
        yield from _of_comparison(comparison)
    for point in results.events:
        subject = f"peak memory, {point.size_bytes / 1e9:.2f} GB"
        yield Verdict(subject, point.bound_mib, point.peak_mib.median, "MiB", "less")
    for opening in results.openings:
        if opening.how == "mapped":
            goal = _SECOND_OPENING_CPU_S
            yield Verdict("second opening of 8 ranks", goal, opening.cpu_s.median, "CPU-s", "less")
    for name, spread in (results.kernels or {}).items():
        yield Verdict(f"{name} of 5 M intervals", _KERNEL_S, spread.median, "CPU-s", "less")
    for name, sight in (results.screens or {}).items():
        yield Verdict(f"first metric, {name}", _FIRST_METRIC_S, sight.metric_s, "s", "less")
    if results.nsys is not None:
        subject = f"nsys export of {results.nsys.size_bytes / 1e9:.2g} GB"
        wall, peak = results.nsys.wall_s.median, results.nsys.peak_mib.median
        yield Verdict(f"{subject}: first metric", _NSYS_METRIC_S, wall, "s", "less")
        yield Verdict(f"{subject}: peak memory", _NSYS_PEAK_MIB, peak, "MiB", "less")


def _of_comparison(comparison: Comparison) -> Iterator[Verdict]:
    name = f"{comparison.family} {comparison.layout}"
    for method, (native, older) in _FASTER.items():
        row = comparison.row(method)
        if row is not None and row.cpu_ratio is not None:
            goal = native if comparison.layout == "native" else older
            yield Verdict(f"{name}: {method}", goal, row.cpu_ratio.median, "×", "more")
    ours = comparison.row(OURS)
    if ours is not None and ours.peak_mib is not None:
        goal = bound_mib(comparison.events)
        yield Verdict(f"{name}: peak memory", goal, ours.peak_mib.median, "MiB", "less")
