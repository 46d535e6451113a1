"""Where lateness begins in records of Inspector, and groups whose collectives are slow.

All members leave a collective together. A rank that waited at one for somebody else is late at the
next of another communicator, as are all that waited with it; so is a member of a group whose
transfers are slow. Only who was late without such a reason makes the others wait.

The rate of an instance is that of the last to arrive, which waits for nobody: a late rank makes no
group slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.metrics.inspector.roll_up import LEAST_INSTANCES, LEAST_WINDOWS, in_runs
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.safe_text import natural_key

if TYPE_CHECKING:
    from ccltui.metrics.inspector.rolled_job import MemberLag, RolledJob

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


_EXPLAINS: Final = 0.6
"""Share of the lateness of a rank that lateness or slowness elsewhere has to come to. Medians and
records that are missing make the two differ by a third."""
_PARTLY: Final = 0.4
"""Share of it from which slow transfers are held to be the cause where no rank is."""
_HELD_UP: Final = 0.5
"""Share of the lateness of another from which on a rank is late there itself."""
_RIVALS: Final = 0.4
"""Share of the lateness of a rank in a window from which on another is as late, at other calls."""
_OFTEN: Final = 0.3
"""Share of the windows from which on that is no hiccup of the other."""
_TOGETHER: Final = 0.5
"""Share of their windows in which ranks are late together."""


class LateRoot(Struct, frozen=True):
    """A rank, or all ranks of a host, that others wait for.

    Attributes:
        labels: The ranks.
        host: Their host.
        group: Number of the group in which most is waited for them, or for those they hold up.
        lag_ms: Lag there, of the one that is waited for most.
        late: Label of the one that is late there: one of ``labels``, else one that they hold up.
        windows: Windows in which it is late there.
        waited_us: What all others together wait for them, and for those that they hold up.
        waits: The same by group: its number, and what is waited there.
        held_up: Ranks that are late because of them.
    """

    labels: tuple[str, ...]
    host: str
    group: int
    lag_ms: float
    late: str
    windows: tuple[int, ...]
    waited_us: int
    waits: tuple[tuple[int, float], ...]
    held_up: tuple[str, ...] = ()


Members = tuple[str, ...]
"""Labels of the ranks of a group."""


class Lateness(Struct, frozen=True):
    """Who is late in a job, the most waited for first, and what groups with slow transfers cause.

    Attributes:
        roots: Ranks and hosts.
        slow: Groups with slow transfers.
        behind_us: What is waited for ranks because of slow transfers, by the members of the group.
        turns: Ranks that are late, where another is about as late in all, at other calls.
    """

    roots: tuple[LateRoot, ...]
    slow: tuple[SlowRate, ...]
    behind_us: Mapping[Members, int]
    turns: tuple[LateRoot, ...]


class _Pair(Struct, frozen=True):
    """A member of a group that is late there."""

    group: int
    member: int
    label: str
    lag: MemberLag


def lateness(job: RolledJob) -> Lateness:
    """Return where the lateness of the ranks of a job begins."""
    return _Search(job).result()


class _Search:
    def __init__(self, job: RolledJob) -> None:
        self._job = job
        self._groups = job.facts.groups
        self._slow = slow_rates(job)
        self._sums: dict[int, tuple[I64, F64]] = {}
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._hosts: dict[str, str] = {}
        self._late: dict[str, list[_Pair]] = defaultdict(list)
        for number, group in enumerate(self._groups):
            for member, label in enumerate(group.labels[: len(group.lags)]):
                self._places[label].append((number, member))
                self._hosts[label] = group.hosts[member]
                lag = group.lags[member]
                if lag.late_windows:
                    self._late[label].append(_Pair(number, member, label, lag))

    def result(self) -> Lateness:
        because: dict[str, list[_Pair]] = defaultdict(list)
        behind: dict[Members, int] = defaultdict(int)
        turns: dict[str, list[_Pair]] = defaultdict(list)
        most_in_turn: dict[int, int] = defaultdict(int)
        single: list[_Pair] = []
        for pair in (pair for pairs in self._late.values() for pair in pairs):
            if self._has_rival(pair):
                turns[pair.label].append(pair)
                most_in_turn[pair.group] = max(most_in_turn[pair.group], pair.lag.waited_us)
            else:
                single.append(pair)
        for pair in single:
            # the rival itself: late for fewer calls than one that is not named for it
            if pair.lag.waited_us < most_in_turn[pair.group]:
                continue
            cause = self._root(pair)
            if isinstance(cause, tuple):
                behind[cause] += pair.lag.waited_us
            else:
                because[cause].append(pair)
        in_turn = [self._made([label], self._hosts[label], pairs) for label, pairs in turns.items()]
        return Lateness(
            _ordered(self._by_host(because)), tuple(self._slow), behind, _ordered(in_turn)
        )

    def _has_rival(self, pair: _Pair) -> bool:
        """Return whether another member is late in all about as much, in between."""
        windows = np.array(pair.lag.late_windows)
        lags = self._groups[pair.group].lags
        sums = self._in_windows(pair.group, windows, beyond=False)
        as_late = (sums >= _RIVALS * sums[pair.member]).mean(axis=1)
        others = [
            float(as_late[at])
            for at, lag in enumerate(lags)
            if np.isin(windows, lag.late_windows).mean() < _TOGETHER
        ]
        return max(others, default=0.0) >= _OFTEN

    def _root(self, pair: _Pair) -> str | Members:
        """Return the rank, or the members of the slow group, that make a rank late."""
        seen = {pair.label}
        while True:
            cause = self._cause(pair)
            if isinstance(cause, tuple) or cause in seen:
                return cause
            # one that is late, and nowhere for itself, is followed to what holds it up
            late = self._late.get(cause)
            if not late or any(self._cause(one) == cause for one in late):
                return cause
            seen.add(cause)
            pair = max(late, key=lambda one: one.lag.waited_us)

    def _cause(self, pair: _Pair) -> str | Members:
        """Return who or what holds a rank up; its own label where nobody does."""
        windows = np.array(pair.lag.late_windows)
        late = self._in_windows(pair.group, windows)[pair.member]
        slow = self._slow_us(pair, windows)
        share = sum(slow.values()) / max(float(late.sum()), 1.0)
        if share < _EXPLAINS:
            label = self._held_up_by(pair, windows, late)
            if label is not None:
                return label
        # with less of a share, the rest may be waiting for a member that the same group made late
        return max(slow, key=lambda one: (slow[one], one)) if share >= _PARTLY else pair.label

    def _held_up_by(self, pair: _Pair, windows: I64, late: F64) -> str | None:
        """Return the rank that a late one waits for at another communicator in most windows."""
        best, most = None, 0.0
        own = self._groups[pair.group].communicator
        for number, member in self._places[pair.label]:
            if self._groups[number].communicator == own:
                continue
            sums = self._in_windows(number, windows)
            # in most windows: the sum over all may be that of one hiccup of a second
            least = np.maximum(_EXPLAINS * late, sums[member] / _HELD_UP)
            share = (sums >= np.maximum(least, 1)).mean(axis=1)
            share[member] = 0
            first = int(share.argmax())
            if share[first] > max(most, _TOGETHER):
                best, most = self._groups[number].labels[first], float(share[first])
        return best

    def _slow_us(self, pair: _Pair, windows: I64) -> dict[Members, float]:
        """Return what slow transfers of other groups take of the time of a late rank."""
        found: dict[Members, float] = defaultdict(float)
        for slow in self._slow:
            labels = self._groups[slow.group].labels
            if pair.label in labels and labels != self._groups[pair.group].labels:
                extra = np.array(slow.extra_us)[np.isin(slow.windows, windows)]
                found[labels] += self._scaled(slow.group, float(extra.sum()))
        return found

    def _in_windows(self, number: int, windows: I64, *, beyond: bool = True) -> F64:
        """Return by how much each member of a group is late in each window, in µs; 0 without calls.

        ``beyond``: beyond the middle member in each window, of two beyond the earlier.
        """
        held, by_window = self._sums_of(number)
        sums = np.zeros((len(by_window), len(windows)))
        known = np.isin(windows, held)
        sums[:, known] = by_window[:, np.searchsorted(held, windows[known])]
        if beyond:
            sums -= np.median(sums, axis=0) if len(sums) > 2 else sums.min(axis=0)
        return sums

    def _sums_of(self, number: int) -> tuple[I64, F64]:
        """Return the windows of a group, and the sums of lags, members × windows, in µs."""
        if number not in self._sums:
            rows = [
                self._job.rows("lag", number, at) for at in range(len(self._groups[number].lags))
            ]
            sums = np.stack([self._job.lag("sum_us")[one] for one in rows]).astype(np.float64)
            windows = self._job.lag("window")[rows[0]]
            self._sums[number] = windows, self._scaled(number, 1.0) * sums
        return self._sums[number]

    def _scaled(self, number: int, value: float) -> float:
        """Return a sum over instances that were matched as one over all of the group."""
        group = self._groups[number]
        return value * group.numbered / group.complete

    def _by_host(self, because: dict[str, list[_Pair]]) -> list[LateRoot]:
        """Return the roots; all ranks of a host that are late together are one."""
        ranks_of: dict[str, list[str]] = defaultdict(list)
        for label, host in self._hosts.items():
            ranks_of[host].append(label)
        found, left = list[LateRoot](), dict(because)
        for host, labels in ranks_of.items():
            if len(labels) > 1 and len(ranks_of) > 1 and all(label in because for label in labels):
                pairs = [left.pop(label) for label in labels]
                if self._are_together(pairs):
                    found.append(self._made(labels, host, [one for each in pairs for one in each]))
                else:
                    left |= dict(zip(labels, pairs, strict=True))
        return found + [self._made([one], self._hosts[one], pairs) for one, pairs in left.items()]

    @staticmethod
    def _are_together(pairs: Sequence[Sequence[_Pair]]) -> bool:
        windows = [{w for pair in each for w in pair.lag.late_windows} for each in pairs]
        every = set[int]().union(*windows)
        return all(len(one) >= _TOGETHER * len(every) for one in windows)

    def _made(self, labels: Sequence[str], host: str, pairs: Sequence[_Pair]) -> LateRoot:
        row = max(pairs, key=lambda one: (one.label in labels, one.lag.waited_us))
        held = {one.label for one in pairs} - set(labels)
        return LateRoot(
            labels=tuple(sorted(labels, key=natural_key)),
            host=host,
            group=row.group,
            lag_ms=row.lag.lag_ms,
            late=row.label,
            windows=row.lag.late_windows,
            waited_us=sum(one.lag.waited_us for one in pairs),
            waits=tuple((one.group, one.lag.waited_us) for one in pairs),
            held_up=tuple(sorted(held, key=natural_key)),
        )


def _ordered(roots: list[LateRoot]) -> tuple[LateRoot, ...]:
    """Return the most waited for first."""
    return tuple(
        sorted(roots, key=lambda one: (-one.waited_us, [natural_key(each) for each in one.labels]))
    )
