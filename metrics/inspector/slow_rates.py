"""Groups whose bus bandwidth is low: beside equal groups, or beside themselves at other times.

The rate of an instance is that of the last to arrive, which waits for nobody: a late rank makes no
group slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.metrics.inspector.matched_series import LEAST_INSTANCES, LEAST_WINDOWS, in_runs
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.inspector.rolled_job import RolledJob

SLOW_SHARE: Final = 0.7
"""Links of one kind differ by less than a tenth; a link that lost one of two lanes has 0.5."""
_LONGER: Final = 1.2
"""Factor of time from which a group is slow too: small messages of one size class take equally
long, so that the smaller ones have the lower bandwidth."""
_FASTEST_SHARE: Final = 0.1
"""Share of the windows that show what a group reaches when nothing is in its way."""
_STRAY_SHARE: Final = 0.1
"""Share of single slow windows from which on the bandwidth of a group varies, and does not drop."""


class SlowRate(Struct, frozen=True):
    """Messages of one size class in one group, while they are slow.

    Attributes:
        group: Number of the group among those of the job.
        size_class: Power of two of their sizes.
        busbw_gbs: Median bus bandwidth in these windows.
        usual_gbs: That of equal groups at the same time, else of the group in all other windows.
        num_peers: Number of equal groups; 0 where it is compared with itself.
        windows: Numbers of the windows.
        extra_us: What the instances of each of these windows take longer than usual, together.
    """

    group: int
    size_class: int
    busbw_gbs: float
    usual_gbs: float
    num_peers: int
    windows: tuple[int, ...]
    extra_us: tuple[float, ...]


class _Row(NamedTuple):
    """Rates of one size class of one group over time.

    ``number`` are windows, ``each_us`` is the transfer of one instance. Of a short recording, whose
    windows are too few, they are the thirds of the instances, and ``windows`` those of time.
    """

    group: int
    size_class: int
    median_gbs: float
    number: I64
    rate: F64
    calls: I64
    each_us: F64
    windows: I64 | None = None

    def at(self, chosen: Bool) -> _Row:
        """Return the row in some of its windows."""
        return self._replace(
            number=self.number[chosen],
            rate=self.rate[chosen],
            calls=self.calls[chosen],
            each_us=self.each_us[chosen],
        )


def slow_rates(job: RolledJob) -> list[SlowRate]:
    """Return the slow groups of a job by size class, those beside equal groups first."""
    rows = _rows(job)
    equal: dict[tuple[Any, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        group = job.facts.groups[row.group]
        of = group.communicator
        equal[group.operation, row.size_class, of.n_ranks, of.nnodes].append(row)
    found = [one for alike in equal.values() if len(alike) > 1 for one in _beside_equal(alike)]
    known = {(one.group, one.size_class) for one in found}
    others = (row for row in rows if (row.group, row.size_class) not in known)
    return found + [one for one in map(_beside_itself, others) if one is not None]


def _rows(job: RolledJob) -> list[_Row]:
    found, short = list[_Row](), list[_Row]()
    for number, group in enumerate(job.facts.groups):
        for size in group.rates:
            at = job.rows("rate", number, size.size_class)
            window = job.rate("window")[at].astype(np.int64)
            rate = job.rate("busbw_gbs")[at].astype(np.float64)
            count, moved = job.rate("count")[at].astype(np.int64), job.rate("bytes")[at]
            each = moved / count / rate
            each *= size.transfer_us / float((each * count).sum())
            row = _Row(number, size.size_class, size.busbw_gbs, window, rate, count, each)
            found.append(row)
            by_third = np.array(size.thirds)
            short.append(
                row._replace(
                    number=np.arange(len(by_third)),
                    rate=by_third,
                    calls=np.full(len(by_third), size.instances // len(by_third)),
                    each_us=size.transfer_us / size.instances * size.busbw_gbs / by_third,
                    windows=window,
                )
            )
    is_short = max((len(row.number) for row in found), default=0) < LEAST_WINDOWS
    return short if is_short else found


def _beside_equal(rows: Sequence[_Row]) -> Iterator[SlowRate]:
    """Yield the groups that are slower than equal ones at the same time."""
    numbers = np.unique(np.concatenate([row.number for row in rows]))
    rates, times = (np.full((len(rows), len(numbers)), np.nan) for _ in range(2))
    for place, row in enumerate(rows):
        at = np.searchsorted(numbers, row.number)
        rates[place, at], times[place, at] = row.rate, row.each_us
    for place, row in enumerate(rows):
        at = np.searchsorted(numbers, row.number)
        others, other_times = (np.delete(one, place, axis=0)[:, at] for one in (rates, times))
        is_known = (~np.isnan(others)).sum(axis=0) >= min(2, len(rows) - 1)
        if not is_known.any():
            continue
        known = row.at(is_known)
        usual = np.nanmedian(others[:, is_known], axis=0)
        slow = _slow(known, usual, np.nanmedian(other_times[:, is_known], axis=0))
        if slow.any():
            medians = [one.median_gbs for one in rows if one is not row]
            yield _slow_rate(known, slow, usual, float(np.median(medians)), len(medians))


def _beside_itself(row: _Row) -> SlowRate | None:
    """Return a group that is slower in some windows than in all others."""
    if len(row.rate) < 2 * LEAST_WINDOWS:
        return None
    smooth = _smoothed(row.rate, row.calls)
    most = max(LEAST_WINDOWS, round(_FASTEST_SHARE * len(smooth)))
    reached = float(np.median(np.sort(smooth)[-most:]))
    slow = _runs(smooth < SLOW_SHARE * reached, row.calls)
    if not slow.any() or (~slow).sum() < LEAST_WINDOWS:
        return None
    usual, usual_us = (float(np.median(one[~slow])) for one in (smooth, row.each_us))
    stray = (smooth[~slow] < SLOW_SHARE * reached).mean()
    if stray > _STRAY_SHARE or np.median(smooth[slow]) >= SLOW_SHARE * usual:
        return None
    if np.median(row.each_us[slow]) < _LONGER * usual_us:
        return None
    return _slow_rate(row, slow, np.full(len(smooth), usual), usual, 0)


def _slow(row: _Row, usual: F64, usual_us: F64) -> Bool:
    """Return the windows in which a row is slow; ``usual`` is NaN where nothing is compared."""
    ratio = _smoothed(row.rate / usual, row.calls)
    longer = _smoothed(row.each_us / usual_us, row.calls)
    return _runs(np.logical_and(ratio < SLOW_SHARE, longer > _LONGER), row.calls)


def _smoothed(values: F64, count: I64) -> F64:
    """Return medians over as many neighbours as have enough instances together."""
    width = -(-LEAST_INSTANCES // max(int(np.median(count)), 1))
    if width < 2:
        return values
    half = width // 2
    padded = np.pad(values, half, mode="edge")
    beside = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.asarray(np.median(beside, axis=1))


def _runs(slow: Bool, calls: I64) -> Bool:
    """Return what is in runs of enough windows, which have enough instances together."""
    each = max(int(np.median(calls)), 1)
    return in_runs(slow, max(LEAST_WINDOWS, -(-LEAST_INSTANCES // each)))


def _slow_rate(row: _Row, slow: Bool, usual: F64, usual_gbs: float, num_peers: int) -> SlowRate:
    """Return the row in its slow windows; where it is always slow, ``usual_gbs`` is of all time."""
    share_lost = np.maximum(1 - row.rate[slow] / usual[slow], 0)
    extra = row.each_us[slow] * row.calls[slow] * share_lost
    always = bool(slow.all())
    windows = row.number[slow]
    if row.windows is not None:  # all three thirds are slow
        windows = row.windows
        extra = np.full(len(windows), extra.sum() / len(windows))
    return SlowRate(
        group=row.group,
        size_class=row.size_class,
        busbw_gbs=row.median_gbs if always else float(np.median(row.rate[slow])),
        usual_gbs=usual_gbs if always or not num_peers else float(np.median(usual[slow])),
        num_peers=num_peers,
        windows=tuple(windows.tolist()),
        extra_us=tuple(extra.tolist()),
    )
