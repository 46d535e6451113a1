"""Find devices that differ from their peers in a test.

    outlier: abs(value - median) > max(K * 1.4826 * MAD, FLOOR_PCT % of abs(median))

MAD is the median absolute deviation from the median over the devices (or hosts) of one test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ccltui.metrics.arrays.statistics import median

if TYPE_CHECKING:
    from ccltui.parsers.cluster.benchmark_yaml import ClusterBenchmark, Measurement

K: Final = 3.5
"""Least deviation of an outlier in scaled MADs."""
FLOOR_PCT: Final = 5.0
"""Least deviation in percent of the median: eight equal devices have a MAD near zero."""
LEAST_PEERS: Final = 3
"""Least number of values of a test."""
_SCALE: Final = 1.4826
"""Ratio of the standard deviation to the MAD of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Peers:
    """Results of one test on several devices or hosts; ``outliers`` index ``measurements``."""

    test: str
    unit: str
    measurements: tuple[Measurement, ...]
    median: float
    mad: float
    outliers: tuple[int, ...]

    def deviation_pct(self, index: int) -> float:
        """Return the deviation of one of them from the median, in percent of the median."""
        value = self.measurements[index].value or 0.0
        return 100 * (value - self.median) / self.median


def peers_of(
    benchmark: ClusterBenchmark, *, k: float = K, floor_pct: float = FLOOR_PCT
) -> tuple[Peers, ...]:
    """Return every test with values of at least three devices (or hosts)."""
    groups: dict[tuple[str, str, bool], list[Measurement]] = defaultdict(list)
    for one in benchmark.measurements:
        if one.value is None or (one.device is None and not one.host):
            continue
        groups[one.id or one.test, one.unit, one.device is None].append(one)
    return tuple(
        _peers(test, unit, found, k, floor_pct)
        for (test, unit, _), found in groups.items()
        if len(found) >= LEAST_PEERS
    )


def _peers(test: str, unit: str, found: Sequence[Measurement], k: float, floor_pct: float) -> Peers:
    values = [one.value or 0.0 for one in found]
    middle = median(values) or 0.0
    mad = median([abs(value - middle) for value in values]) or 0.0
    limit = max(k * _SCALE * mad, floor_pct / 100 * abs(middle))
    outliers = tuple(i for i, value in enumerate(values) if abs(value - middle) > limit)
    return Peers(test, unit, tuple(found), middle, mad, outliers if middle else ())


def name_of(one: Measurement) -> str:
    """Return the device or host of a measurement: ``GPU 0``, ``node-a GPU 3``, ``node-a``."""
    device = "" if one.device is None else f"GPU {one.device}"
    return " ".join(part for part in (one.host, device) if part) or one.category
