"""Measure the evidence of call ends on two hosts for a clock difference.

    log_gain of a call = log((|dur - dur'| + FINE_NS) / (|end - end'| + FINE_NS))
    closeness of a call = CLOSE_NS / (|end - end'| + CLOSE_NS)

Calls of one collective end at once although their ranks arrive at different times. Ends that
agree where durations differ are caused neither by chance nor by the same program running a little
later, so a call is weighted by the logarithm of how much better its ends agree than its starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.compiled import has_near_ends
from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.collectives.matching.align_calls import ClockDifference, fit
from ccltui.metrics.collectives.matching.match import MatchInput, taking_part
from ccltui.metrics.collectives.matching.validity import ONE_CLOCK_NS
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.columns import MISSING
from ccltui.parsers.communication_kernels import LIBRARIES

if TYPE_CHECKING:
    from ccltui.metrics.arrays import _near_ends

FEWEST: Final = 3
"""Fewer calls are no evidence of a communicator: they may end together by chance."""
_KINDS: Final = 64


class Queue(Struct, frozen=True):
    """Calls of one rank (``owner``, an index of the inputs) on one stream, in order of their ends.

    All are kernels of one ``library`` (an index of `LIBRARIES`): those of different libraries are
    never one collective.

    ``what`` differs for calls that cannot be one collective: by type, and by step where all ranks
    have steps in common.
    """

    owner: int
    stream: int
    library: int
    rows: I64
    kind: I64
    what: I64
    end_ns: I64
    dur_ns: I64


def queues_of(inputs: Sequence[MatchInput], streams: Mapping[str, I64]) -> list[Queue]:
    """Return the queues of at least ``FEWEST`` calls; ``streams`` is by label, one per call."""
    part = taking_part(inputs)
    marked = _share_steps([inputs[owner].calls.step for owner in part])
    found = []
    for owner in part:
        calls, stream = inputs[owner].calls, streams[inputs[owner].label]
        pairs = stream * len(LIBRARIES) + calls.library
        for pair in distinct_values(pairs[stream >= 0]).tolist():
            one, library = divmod(pair, len(LIBRARIES))
            rows = np.flatnonzero(pairs == pair)
            if len(rows) < FEWEST:
                continue
            rows = rows[np.argsort(calls.end_ns[rows], kind="stable")]
            kind = calls.kind[rows].astype(np.int64)
            what = kind + _KINDS * (calls.step[rows] + 1) if marked else kind
            found.append(
                Queue(owner, one, library, rows, kind, what, calls.end_ns[rows], calls.dur_ns[rows])
            )
    return found


def places_of(queue: Queue) -> I64 | None:
    """Return the place of each call in its step, int64 [n]; None where steps are not told.

    A call outside of the steps has a place of its own.
    """
    step = queue.what // _KINDS
    if not step.any():
        return None
    edges = np.flatnonzero(np.diff(step, prepend=-1))
    sizes = np.diff(edges, append=len(step))
    place = np.arange(len(step)) - np.repeat(edges, sizes)
    return np.where(step > 0, place, len(step) + np.arange(len(step)))


def _share_steps(steps: Sequence[I64]) -> bool:
    """Whether all ranks have a step in common."""
    known = [set(distinct_values(step[step != MISSING]).tolist()) for step in steps]
    return bool(known) and bool(set.intersection(*known))


USUAL: Final = 0.8
"""Least share of the calls of a stream that end together with calls of the other stream."""
FINE_NS: Final = 5_000
"""Ends of one collective scatter by some us."""
CLOSE_NS: Final = 10_000
"""Ends this far apart have half the closeness of ends that agree."""
_FAR: Final = 10**15
_STREAMS: Final = 1 << 32
_SENDRECV: Final = TYPES.index("SendRecv")


class HostCalls(Struct, frozen=True, dict=True):
    """The queues of one host, which share one clock, with all of their calls."""

    number: int  # among the hosts of the job
    queues: tuple[Queue, ...]

    @property
    def owners(self) -> list[int]:
        """Its ranks, as indices of the inputs."""
        return list(dict.fromkeys(queue.owner for queue in self.queues))

    @cached_property
    def owner(self) -> I64:
        """Rank of each queue."""
        return np.array([queue.owner for queue in self.queues], np.int64)

    @cached_property
    def stream(self) -> I64:
        """Stream of each queue."""
        return np.array([queue.stream for queue in self.queues], np.int64)

    @cached_property
    def transfers(self) -> Bool:
        """Mask of the queues of sends and receives only."""
        return np.array([bool((queue.kind == _SENDRECV).all()) for queue in self.queues])

    @cached_property
    def first_ns(self) -> I64:
        """First end of each queue."""
        return np.array([queue.end_ns[0] for queue in self.queues], np.int64)

    @cached_property
    def last_ns(self) -> I64:
        """Last end of each queue."""
        return np.array([queue.end_ns[-1] for queue in self.queues], np.int64)

    @cached_property
    def _names(self) -> I64:
        return distinct_values(np.concatenate([queue.what for queue in self.queues]))

    @cached_property
    def begin_ns(self) -> int:
        """First end of all calls."""
        return int(self.first_ns.min())

    @cached_property
    def until_ns(self) -> int:
        """Last end of all calls."""
        return int(self.last_ns.max())

    @property
    def _base(self) -> tuple[int, int]:
        """First end of all calls, and the time from it to the last one, ns."""
        return self.begin_ns, self.until_ns - self.begin_ns + 1

    @cached_property
    def first(self) -> I64:
        """Index of the first call of each queue in `calls`, and the number of all calls."""
        return np.cumsum([0, *(len(queue.rows) for queue in self.queues)], dtype=np.int64)

    @cached_property
    def calls(self) -> tuple[I64, I64, I64]:
        """``what``, ends and durations of the calls of all queues, one queue after another."""
        queues = self.queues
        return (
            np.concatenate([queue.what for queue in queues]),
            np.concatenate([queue.end_ns for queue in queues]),
            np.concatenate([queue.dur_ns for queue in queues]),
        )

    @cached_property
    def _prefix(self) -> I64:
        """Number of the queue and ``what`` of each call."""
        queue = np.repeat(np.arange(len(self.queues)), np.diff(self.first))
        return np.asarray(queue * len(self._names) + np.searchsorted(self._names, self.calls[0]))

    @cached_property
    def _order(self) -> I64:
        return np.lexsort((self.calls[1], self._prefix))

    @cached_property
    def ordered(self) -> tuple[I64, I64]:
        """Ends and durations of all calls, by queue, ``what`` and end."""
        return self.calls[1][self._order], self.calls[2][self._order]

    @cached_property
    def _sorted(self) -> tuple[I64, I64]:
        """Keys of all calls (queue, what, end), ascending, and prefixes of keys."""
        base, span = self._base
        prefix = self._prefix[self._order]
        return prefix * span + (self.ordered[0] - base), prefix

    @cached_property
    def _first_of_names(self) -> I64:
        """Index of the first call of each queue and ``what`` in `ordered`, and their number."""
        counts = np.bincount(self._prefix, minlength=len(self.queues) * len(self._names))
        return np.append(0, np.cumsum(counts))

    @cached_property
    def _layout(self) -> tuple[bytes, bytes, bytes]:
        """What `compatible` depends on, equal for hosts with the same streams."""
        owner = np.searchsorted(distinct_values(self.owner), self.owner)
        return owner.tobytes(), self.stream.tobytes(), self.transfers.tobytes()

    def compatible(self, other: HostCalls) -> Bool:
        """Return which queues of two hosts may be of one communicator, bool [q, q].

        Ranks of one program number their streams alike: two stream numbers that either rank has
        both of are different communicators. Transfers are the exception: a rank sends on one
        stream and the next rank receives on another.
        """
        return _compatible(self._layout, other._layout, is_same=self.number == other.number)

    @cached_property
    def _samples(self) -> dict[int, Sample]:
        return {}

    def sample(self, most: int) -> Sample:
        """Return at most ``most`` calls of each queue, evenly spread."""
        if most not in self._samples:
            self._samples[most] = Sample.of(self, np.arange(len(self.queues)), most)
        return self._samples[most]

    @cached_property
    def sampled(self) -> I64:
        """Numbers of the queues of the ranks that are used to find candidates."""
        owners = self.owners
        few = owners if len(owners) <= MAX_RANKS_SAMPLED else [owners[0], owners[-1]]
        return np.flatnonzero(np.isin(self.owner, few))

    @cached_property
    def ends(self) -> _near_ends.HostEnds:
        """Its calls in compiled code, for `evidence` and `options_of`."""
        from ccltui.metrics.arrays import _near_ends  # noqa: PLC0415 - not built everywhere

        return _near_ends.HostEnds(
            *(*self.calls, self.first, self.sampled),
            *(self._names, self.ordered, self._first_of_names, _limits()),
        )

    def nearest(self, times_ns: I64, sample: Sample, may_meet: Bool) -> NearCalls:
        """Return the like calls of this host that end near those of a sample of another one."""
        key, prefixes = self._sorted
        end = self.ordered[0]
        base, span = self._base
        code = np.minimum(np.searchsorted(self._names, sample.what), len(self._names) - 1)
        known = (self._names[code] == sample.what)[:, np.newaxis]
        prefix = np.arange(len(self.queues)) * len(self._names) + code[:, np.newaxis]
        times = times_ns[:, np.newaxis]
        right = np.searchsorted(key, prefix * span + np.clip(times - base, 0, span - 1))
        sides = np.maximum(right - 1, 0), np.minimum(right, len(key) - 1)
        far = [
            np.where(known & (prefixes[side] == prefix), np.abs(end[side] - times), _FAR)
            for side in sides
        ]
        place = np.where(far[0] < far[1], *sides)
        possible = may_meet[sample.queue]
        near = (np.minimum(*far) <= ONE_CLOCK_NS) & possible
        inside = (times >= self.first_ns - ONE_CLOCK_NS) & (times <= self.last_ns + ONE_CLOCK_NS)
        inside &= possible
        call, queue = np.nonzero(near)
        counts = [np.zeros(may_meet.shape, np.int64) for _ in range(2)]
        for count, mask in zip(counts, (inside, inside & near), strict=True):
            np.add.at(count, sample.queue, mask)
        return NearCalls(call, queue, place[near], *counts)


class NearCalls(Struct, frozen=True):
    """Pairs of a call of a sample and a like call of another host that end near each other.

    Attributes:
        call: position in the sample, ascending.
        queue: queue of the other host.
        place: index into `HostCalls.ordered` of the other host.
        num_inside: by queue of either host, number of calls of the sample inside the time of the
            other queue, int64 [q, q]; 0 for queues of different communicators.
        num_near: the same of those with a near like call.
    """

    call: I64
    queue: I64
    place: I64
    num_inside: I64
    num_near: I64


class Sample(Struct, frozen=True):
    """Some calls of some queues of a host: the number of the queue, and the rest as in `Queue`."""

    queue: I64
    what: I64
    end_ns: I64
    dur_ns: I64

    @classmethod
    def of(
        cls,
        host: HostCalls,
        queues: I64,
        most: int,
        middle_ns: int = 0,
        width_ns: int = 0,
    ) -> Sample:
        """Select at most ``most`` calls of each of some queues, evenly spread.

        With ``width_ns`` only calls that end at most so far from ``middle_ns``.
        """
        queue, rows = _spread(host, queues, most, middle_ns, width_ns)
        what, end, dur = host.calls
        return cls(queue, what[rows], end[rows], dur[rows])


def _spread(
    host: HostCalls, queues: I64, most: int, middle_ns: int, width_ns: int
) -> tuple[I64, I64]:
    """Return the queue and the index into `HostCalls.calls` of each call of a sample."""
    end, first = host.calls[1], host.first
    if has_near_ends():
        from ccltui.metrics.arrays import _near_ends  # noqa: PLC0415 - not built everywhere

        found: tuple[I64, I64] = _near_ends.sampled(end, first, queues, most, middle_ns, width_ns)
        return found
    parts = [np.empty(0, np.int64)]
    for queue in queues.tolist():
        rows = np.arange(first[queue], first[queue + 1])
        if width_ns:
            rows = rows[np.abs(end[rows] - middle_ns) <= width_ns]
        if len(rows) > most:
            rows = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
        parts.append(rows)
    return np.repeat(queues, [len(rows) for rows in parts[1:]]), np.concatenate(parts)


Best = tuple[F64, F64]
"""Evidence of each queue of a host, and of each of another one, with its best partner."""


class Evidence(Struct, frozen=True):
    """Evidence of the queues of two hosts for a clock difference, 0 for none.

    ``log_gain`` sums how much better ends agree than starts, ``total`` adds how close ends are, at
    most 1 per call. ``own_ns`` and ``other_ns`` are the ends of matching calls of the queue pairs
    with most evidence (``queue`` is that of the first host).
    """

    log_gain: Best
    total: Best
    own_ns: I64
    other_ns: I64
    queue: I64


def evidence(
    sample: Sample,
    host: HostCalls,
    other: HostCalls,
    ahead: ClockDifference,
    least: Best | None = None,
) -> Evidence:
    """Return the evidence that a host is ``ahead`` of another by this clock difference.

    Queues of either host with less total evidence than ``least`` contribute no ends.
    """
    if least is None:
        least = np.zeros(len(host.queues)), np.zeros(len(other.queues))
    if has_near_ends():
        return Evidence(*other.ends.evidence(*_compared_with(sample, host, other, ahead), *least))
    near, log_gain, total = _meeting(sample, host, other, ahead)
    best = total.argmax(axis=1)
    most = total.max(axis=1)
    both = (most > 0) & (total[:, best].argmax(axis=0) == np.arange(len(total)))
    both &= (most >= least[0]) & (most >= least[1][best])
    queue = sample.queue[near.call]
    chosen = both[queue] & (near.queue == best[queue])
    own, end = sample.end_ns[near.call[chosen]], other.ordered[0][near.place[chosen]]
    return Evidence(_best_of(log_gain), _best_of(total), own, end, queue[chosen])


def _compared_with(
    sample: Sample, host: HostCalls, other: HostCalls, ahead: ClockDifference
) -> tuple[I64, I64, I64, I64, Bool, int, float, int]:
    """Return what the compiled comparison takes."""
    calls = (sample.queue, sample.what, sample.end_ns, sample.dur_ns)
    return *calls, host.compatible(other), round(ahead.offset_ns), ahead.rate, ahead.at_ns


def _meeting(
    sample: Sample, host: HostCalls, other: HostCalls, ahead: ClockDifference
) -> tuple[NearCalls, F64, F64]:
    """Return the calls that end near each other, and ``log_gain`` and ``total`` by queues."""
    may_meet = host.compatible(other)
    times = sample.end_ns - ahead.of(sample.end_ns)
    near = other.nearest(times, sample, may_meet)
    ends, durs = other.ordered
    apart = np.abs(ends[near.place] - times[near.call]).astype(np.float64)
    longer = np.abs(sample.dur_ns[near.call] - durs[near.place])
    cell = sample.queue[near.call] * may_meet.shape[1] + near.queue
    gains = np.bincount(cell, np.log((longer + FINE_NS) / (apart + FINE_NS)), may_meet.size)
    close = np.bincount(cell, CLOSE_NS / (apart + CLOSE_NS), may_meet.size)
    usual = (near.num_near >= FEWEST) & (near.num_near >= USUAL * near.num_inside) & may_meet
    log_gain = np.where(usual, np.maximum(gains.reshape(may_meet.shape), 0.0), 0.0)
    return near, log_gain, log_gain + np.where(usual, close.reshape(may_meet.shape), 0.0)


def _best_of(table: F64) -> Best:
    return table.max(axis=1, initial=0), table.max(axis=0, initial=0)


def sum_of(best: Best) -> float:
    """Sum the evidence of all queues of both hosts, each with its best partner."""
    return float(best[0].sum() + best[1].sum())


@lru_cache(maxsize=32)  # stages of a pipeline differ, ranks of one hardly do
def _compatible(
    host: tuple[bytes, bytes, bytes], other: tuple[bytes, bytes, bytes], *, is_same: bool
) -> Bool:
    owner, stream = (np.frombuffer(one, np.int64)[:, np.newaxis] for one in host[:2])
    owners, streams = (np.frombuffer(one, np.int64) for one in other[:2])
    transfers = np.frombuffer(host[2], np.bool_)[:, np.newaxis] & np.frombuffer(other[2], np.bool_)
    here = np.isin(owner * _STREAMS + streams, owner * _STREAMS + stream)
    there = np.isin(owners * _STREAMS + stream, owners * _STREAMS + streams)
    apart = owner != owners if is_same else True
    return np.asarray(apart & ((stream == streams) | transfers | ~(here | there)))


MIN_WEIGHT: Final = 0.1
"""Weight of a pair of calls whose starts agree as well as its ends."""
_BIN_NS: Final = 30_000
_VOTERS: Final = 256
_CELLS: Final = 100_000
"""Number of pairs of calls of two queues that vote, those in the middle of the first."""
_SLACK: Final = 64
"""Number of calls that may be missing on both sides, beyond the difference of the lengths."""
_MOST_OF_TWO: Final = 4
"""Number of clock differences that two queues vote for."""
CANDIDATES: Final = 12
MAX_OPTIONS: Final = 5
COARSE: Final = 8
FINE: Final = 16
"""Number of calls of a queue used to choose among candidates, and to evaluate them."""
MAX_RANKS_SAMPLED: Final = 2
"""Number of ranks of a host used to find candidates."""
WINDOW_NS: Final = 1_000_000_000
"""Half the time over which a drift is smaller than the distances of ends of a collective."""
WIDER: Final = 8
MAX_DRIFT: Final = 500e-6
"""Larger fitted drifts are rejected: clocks of computers drift by some ten parts in a million."""


class HostPair(Struct, frozen=True, eq=False):
    """Two hosts by number, and their possible clock differences.

    ``log_gain`` and ``total`` are float64 [n, q] for each difference: as in `Evidence`, of the
    queues of the first host and then of those of the other one.
    """

    one: int
    other: int
    ahead: Sequence[ClockDifference]
    log_gain: F64
    total: F64


@lru_cache(maxsize=1)
def _limits() -> _near_ends.Limits:
    from ccltui.metrics.arrays import _near_ends  # noqa: PLC0415 - not built everywhere

    return _near_ends.Limits(
        one_clock_ns=ONE_CLOCK_NS,
        fine_ns=FINE_NS,
        close_ns=CLOSE_NS,
        fewest=FEWEST,
        usual=USUAL,
        bin_ns=_BIN_NS,
        voters=_VOTERS,
        cells=_CELLS,
        slack=_SLACK,
        most_of_two=_MOST_OF_TWO,
        min_weight=MIN_WEIGHT,
        candidates=CANDIDATES,
        max_options=MAX_OPTIONS,
        coarse=COARSE,
        fine=FINE,
        window_ns=WINDOW_NS,
        wider=WIDER,
        max_drift=MAX_DRIFT,
    )


def options_of(host: HostCalls, other: HostCalls) -> HostPair:
    """Return the clock differences with most evidence, at most ``MAX_OPTIONS``."""
    if has_near_ends():
        from ccltui.metrics.arrays import _near_ends  # noqa: PLC0415 - not built everywhere

        whole = host.sample(FINE)
        found, log_gain, total = _near_ends.clock_options(
            *(host.ends, other.ends, host.compatible(other)),
            *((whole.queue, whole.what, whole.end_ns, whole.dur_ns), fit),
        )
        ahead = [ClockDifference(*one) for one in found]
        return HostPair(host.number, other.number, ahead, log_gain, total)
    ahead = _differences(host, other)
    every = [evidence(host.sample(FINE), host, other, one) for one in ahead]
    shape = len(ahead), len(host.queues) + len(other.queues)
    tables = (
        np.array([np.concatenate(best) for best in column]).reshape(shape)
        for column in ([one.log_gain for one in every], [one.total for one in every])
    )
    return HostPair(host.number, other.number, ahead, *tables)


def _differences(host: HostCalls, other: HostCalls) -> list[ClockDifference]:
    """Return the clock differences of `options_of`, the clearest first."""
    scored = []
    for ahead_ns in _candidates(host, other):
        rough = ClockDifference(ahead_ns, 0.0, _middle(host, other, ahead_ns))
        sample = Sample.of(host, host.sampled, COARSE, rough.at_ns, WINDOW_NS)
        scored.append((sum_of(_best_of(_meeting(sample, host, other, rough)[2])), rough))
    scored.sort(key=lambda one: -one[0])
    found: list[ClockDifference] = []
    for most, rough in scored:
        known = any(abs(one.offset_ns - rough.offset_ns) <= ONE_CLOCK_NS for one in found)
        if most > 0 and not known and len(found) < MAX_OPTIONS:
            found.append(_widened(host, other, rough))
    return found


def _candidates(host: HostCalls, other: HostCalls) -> list[float]:
    """Return the clock differences (ns) with most votes of some ranks of either host."""
    votes = [
        vote
        for begin, count, there, counts in _compared(host, other).tolist()
        for vote in _votes_of(
            tuple(column[begin : begin + count] for column in host.calls),
            tuple(column[there : there + counts] for column in other.calls),
        )
    ]
    votes.sort(reverse=True)
    ahead = np.array([one for _, one in votes])
    found: list[float] = []
    while len(ahead) and len(found) < CANDIDATES:
        found.append(float(ahead[0]))
        ahead = ahead[np.abs(ahead - ahead[0]) > _BIN_NS]
    return found


def _compared(host: HostCalls, other: HostCalls) -> I64:
    """Return the calls to compare of each pair of queues of some ranks of either host.

    Returns:
        First call and number of calls of the one, as in `HostCalls.calls`, and of the other,
        int64 [n, 4].
    """
    mine, theirs = host.sampled, other.sampled
    one, two = np.repeat(mine, len(theirs)), np.tile(theirs, len(mine))
    count, counts = np.diff(host.first)[one], np.diff(other.first)[two]
    reach = np.abs(count - counts) + _SLACK
    voters = np.minimum(count, np.clip(_CELLS // (2 * reach), 16, _VOTERS))
    first = (count - voters) // 2
    there = np.maximum(first - reach, 0)
    stop = np.minimum(first + voters + reach, counts)
    parts = (host.first[one] + first, voters, other.first[two] + there, stop - there)
    alike = np.minimum(count, counts) >= USUAL * np.maximum(count, counts)
    return np.asarray(np.stack(parts, axis=1)[alike & (stop > there)])


def _votes_of(one: tuple[I64, ...], two: tuple[I64, ...]) -> list[tuple[float, float]]:
    """Return (votes, difference) of differences that many pairs of like calls of two queues share.

    A pair votes with log(1 + |difference of durations| / FINE_NS) + MIN_WEIGHT. Given are ``what``,
    ends and durations of the calls of either.
    """
    (what, end, dur), (other_what, other_end, other_dur) = one, two
    like = what[:, np.newaxis] == other_what
    apart = (end[:, np.newaxis] - other_end)[like]
    if len(apart) < FEWEST:
        return []
    longer = np.abs(dur[:, np.newaxis] - other_dur)[like]
    order = np.argsort(apart)
    apart = apart[order]
    weight = np.concatenate(([0.0], np.cumsum(np.log1p(longer[order] / FINE_NS) + MIN_WEIGHT)))
    stop = np.searchsorted(apart, apart + _BIN_NS, side="right")
    begin = np.arange(len(apart))
    votes = np.where(stop - begin >= FEWEST, weight[stop] - weight[:-1], 0.0)
    found = []
    for _ in range(_MOST_OF_TWO):
        best = int(votes.argmax())
        if votes[best] <= 0:
            break
        found.append((float(votes[best]), float(median_along(apart[best : stop[best]]))))
        low, high = np.searchsorted(apart, apart[best] + np.array([-2, 3]) * _BIN_NS)
        votes[low:high] = 0
    return found


def _middle(host: HostCalls, other: HostCalls, ahead_ns: float) -> int:
    """Return the middle of the time that both hosts recorded, ns on the clock of the first."""
    ahead = round(ahead_ns)
    first = max(host.begin_ns, other.begin_ns + ahead)
    return (first + min(host.until_ns, other.until_ns + ahead)) // 2


def _widened(host: HostCalls, other: HostCalls, rough: ClockDifference) -> ClockDifference:
    """Fit the clock difference with its drift to calls in a growing window around the middle."""
    longest = host.until_ns - host.begin_ns
    width, ahead = WINDOW_NS, rough
    while True:
        sample = Sample.of(host, host.sampled, FINE, rough.at_ns, width)
        found = evidence(sample, host, other, ahead)
        if len(found.own_ns) >= 3 and longest <= WINDOW_NS:
            middle = float(median_along(found.own_ns - found.other_ns))
            return ClockDifference(middle, 0.0, rough.at_ns)
        if len(found.own_ns) >= 3:
            fitted = fit(found.own_ns, found.other_ns)
            if abs(fitted.rate) <= MAX_DRIFT:
                ahead = fitted
        if width >= longest:
            return ahead
        width *= WIDER
