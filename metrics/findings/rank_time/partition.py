"""The partition of rank time: every nanosecond of the measured device time in one part, once.

The measured time of a rank is that of its steps, from first work to first work, so that idle time
between steps is in it. Its parts are, the first that applies: computing, waiting for a late rank,
exposed communication (between pipeline stages: bubble), copies, idle time by cause. All metrics of
device time read this module.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np
from msgspec import Struct, field

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.collectives.arrivals import GroupArrivals
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.causes.roots import (
    BLAMELESS_CAUSES,
    RootWaiting,
    root_by_rank,
    root_waiting,
)
from ccltui.metrics.findings.rank_time.idle_causes import causes_of
from ccltui.metrics.model.classify import COMM, COMP, MEM, TYPES
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view import collective_selection
from ccltui.metrics.view.collective_selection import (
    describe_group,
    parts_of,
    require_ranks,
)
from ccltui.metrics.view.match_quality import possible_match
from ccltui.metrics.workload.call_parts import dims_of_types
from ccltui.parsers.array_types import I32, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

Kind = Literal["compute", "straggler", "communication", "bubble", "copies", "idle", "other_groups"]

MAX_STRAGGLERS: Final = 8
"""Number of stragglers listed one by one; waits for other ranks are summed as `OTHERS`."""
OTHERS: Final = "others"
BETWEEN_STAGES: Final = frozenset({"Send", "Recv", "SendRecv"})
"""Calls by which pipeline stages wait for each other: they run until their data is there."""
UNKNOWN: Final = "unknown"


class Place(Struct, frozen=True):
    """The largest instance of a part; ``time_ns`` is on the own clock of the rank ``label``.

    ``number`` and ``row`` are the group in ``view.arrivals.groups`` and the row of a matched
    collective in it, -1 where the instance is no collective.
    """

    label: str
    time_ns: int
    number: int = -1
    row: int = -1


class Part(Struct):
    """Time of ranks that one kind of activity or one cause takes.

    Attributes:
        kind: kind of the part; "bubble" is exposed communication between pipeline stages,
            "other_groups" is time in collectives that the view does not select while no selected
            work runs.
        what: label of a straggler, or of the rank that delayed it; name of a collective, or of a
            cause of idle time; else the kind.
        group: index of the communicator of a collective, else -1.
        by_rank: ns by rank label.
        place: the largest instance, None for computing and other groups.
        weight: size of the largest instance, by which places are compared.
    """

    kind: Kind
    what: str
    group: int = -1
    by_rank: dict[str, int] = field(default_factory=dict)
    place: Place | None = None
    weight: int = -1

    @property
    def total_ns(self) -> int:
        """Time on all ranks, in ns."""
        return sum(self.by_rank.values())

    def add(self, label: str, time_ns: int, place: Place | None, weight: int) -> None:
        """Add the time of one rank; of all places the one of the largest weight is stored."""
        self.by_rank[label] = self.by_rank.get(label, 0) + time_ns
        if place is not None and (weight, place.label) > (
            self.weight,
            "" if self.place is None else self.place.label,
        ):
            self.place, self.weight = place, weight


_Found = dict[tuple[Kind, str, int], Part]
_Name = TypeVar("_Name", bound=Hashable)


class Partition(Struct, frozen=True):
    """The measured time of ranks in parts; for each rank their sum is ``span_ns``.

    Attributes:
        span_ns: measured time by rank label.
        parts: all parts with time, the largest first.
    """

    span_ns: Mapping[str, int]
    parts: tuple[Part, ...]

    @property
    def losses(self) -> list[Part]:
        """Parts in which nothing computes, other than time in groups that are not selected."""
        return [part for part in self.parts if part.kind not in ("compute", "other_groups")]

    def times_by(self, name_of: Callable[[Part], _Name | None]) -> dict[str, Counter[_Name]]:
        """Return the time of each rank by name, in ns, by label; without parts that have none."""
        found: dict[str, Counter[_Name]] = {label: Counter() for label in self.span_ns}
        for part in self.parts:
            name = name_of(part)
            if name is not None:
                for label, time_ns in part.by_rank.items():
                    found[label][name] += time_ns
        return found


def partition(view: View) -> Partition:
    """Divide the measured time of all ranks with kernels; metrics of one view share the result.

    Raises:
        Refusal: no rank has kernels, or the selection has no device work.
    """
    return view.remember(partition, lambda: _divided(view, device_ranks(view)))


@fact("partition")
def _divided(view: View, ranks: Sequence[RankView]) -> Partition:
    found: _Found = {}
    waits = _Waits(view)
    for rank in ranks:
        kernels = rank.comp | rank.comm
        _part(found, "compute", "compute").add(rank.label, rank.comp.total_ns, None, -1)
        exposed = _take_waits(found, waits, rank, rank.exposed)
        _take_communication(found, view, rank, exposed)
        _part(found, "copies", "copies").add(
            rank.label, (rank.mem - rank.comp).total_ns, *_longest(rank.label, rank.mem - kernels)
        )
        if view.options.group is not None:
            others = rank.occupied - (kernels | rank.mem)
            _part(found, "other_groups", "other_groups").add(rank.label, others.total_ns, None, -1)
        _take_idle(found, rank)
        if view.facts.is_large:  # the intervals of all ranks do not fit into memory
            rank.forget_intervals()
    kept = [part for part in found.values() if part.total_ns > 0]
    return Partition(
        {rank.label: rank.window_ns for rank in ranks},
        tuple(sorted(kept, key=lambda one: (-one.total_ns, one.kind, one.what, one.group))),
    )


def _part(found: _Found, kind: Kind, what: str, group: int = -1) -> Part:
    return found.setdefault((kind, what, group), Part(kind, what, group))


def _longest(label: str, time: Intervals) -> tuple[Place | None, int]:
    """Start of the longest interval, and its length."""
    if not len(time):
        return None, -1
    length = time.end_ns - time.start_ns
    at = int(length.argmax())
    return Place(label, int(time.start_ns[at])), int(length[at])


class _Column(Struct, frozen=True):
    """A member of a group; of its instances the late ones, and the member that delayed each."""

    arrived: GroupArrivals
    member: int
    late: Bool
    last: I32

    def waits(self, calls: Calls) -> tuple[I64, I64, I32]:
        """Return start and end of each wait in ns, and the member that was waited for."""
        rows = np.flatnonzero(self.late & (self.arrived.wait_ns[:, self.member] > 0))
        start = calls.start_ns[self.arrived.match.rows[rows, self.member]]
        return start, start + self.arrived.wait_ns[rows, self.member], self.last[rows]


def _columns(view: View) -> Mapping[str, Sequence[_Column]]:
    """Return the groups of each rank of which arrivals identify stragglers, by label."""
    found: defaultdict[str, list[_Column]] = defaultdict(list)
    for part in _reliable_parts(view):
        last = part.arrived.delaying
        late = part.rows & (last >= 0)
        for member in part.columns.tolist():
            found[part.arrived.labels[member]].append(_Column(part.arrived, member, late, last))
    return found


def exposed_parts(view: View, rank: RankView, exposed: Intervals) -> tuple[Intervals, Intervals]:
    """Return the waiting for late ranks and the bubble of the pipeline in exposed communication.

    Args:
        view: the job; waits are those at the collectives that it selects.
        rank: a rank of the view.
        exposed: time in communication without computing or copies at the same time.
    """
    columns = view.remember(_columns, lambda: _columns(view)).get(rank.label, ())
    starts, ends = [], []
    for column in columns:
        start, end, _ = column.waits(rank.named_calls)
        starts.append(start)
        ends.append(end)
    waiting = exposed & union(np.concatenate(starts), np.concatenate(ends)) if starts else None
    left = exposed if waiting is None else exposed - waiting
    bubble = Intervals.empty()
    for kind, _, _, time in _communication(view, rank, left):
        bubble = bubble | time if kind == "bubble" else bubble
    return Intervals.empty() if waiting is None else waiting, bubble


class _Waits:
    """Waits of ranks for stragglers, from the matched collectives that a view selects."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._parts = _reliable_parts(view)
        self._places: dict[str, Place] = {}
        caused: defaultdict[str, int] = defaultdict(int)
        worst: dict[str, int] = {}
        for part in self._parts:
            for straggler, wait, longest, row in _stragglers(part):
                caused[straggler] += wait
                if longest > worst.get(straggler, -1):
                    worst[straggler] = longest
                    self._places[straggler] = self._place(part, row, straggler)
        followed = root_waiting(view) if self._parts else None
        # The rank that delayed each late rank, where most of its lag ends at another one.
        self._roots = {} if followed is None else root_by_rank(followed.behind)
        behind: defaultdict[str, int] = defaultdict(int)
        for label, wait in caused.items():
            root = self._roots.get(label, label)
            behind[root] += wait
            if root != label and (root not in worst or worst[label] > worst[root]):
                worst[root], self._places[root] = worst[label], self._places[label]
        if followed is not None:
            self._places |= self._own_places(followed)
        self._of_label = view.remember(_columns, lambda: _columns(view))
        order = sorted(behind, key=lambda label: (-behind[label], label))
        self.stragglers = order[:MAX_STRAGGLERS]

    def _own_places(self, followed: RootWaiting) -> dict[str, Place]:
        """Return the longest wait for each rank that came last for a cause of its own.

        At the longest wait of all it may have been late by the order of the pipeline.
        """
        parts, found = {part.number: part for part in self._parts}, dict[str, Place]()
        for one, (number, row) in zip(followed.behind, followed.places, strict=True):
            late = one.chain[0]
            is_own = len(one.chain) == 1 and late.cause not in BLAMELESS_CAUSES
            if is_own and late.label not in found and number in parts:
                found[late.label] = self._place(parts[number], row, late.label)
        return found

    def _place(self, part: collective_selection.Part, row: int, straggler: str) -> Place:
        calls = self._view.facts.named_calls[straggler]
        column = part.arrived.labels.index(straggler)
        start = calls.start_ns[part.arrived.match.rows[row, column]]
        return Place(straggler, int(start), part.number, row)

    def place(self, straggler: str) -> Place | None:
        """Return the collective with the longest wait for a straggler."""
        return self._places.get(straggler)

    def of(self, label: str) -> Iterator[tuple[str, Intervals]]:
        """Yield each straggler and the times that a rank waited for it, the costliest first."""
        by_straggler: defaultdict[str, list[tuple[I64, I64]]] = defaultdict(list)
        calls = self._view.facts.named_calls[label]
        for one in self._of_label.get(label, ()):
            start, end, last = one.waits(calls)
            for member in distinct_values(last).tolist():
                chosen, label_of_last = last == member, one.arrived.labels[member]
                straggler = self._roots.get(label_of_last, label_of_last)
                name = straggler if straggler in self.stragglers else OTHERS
                by_straggler[name].append((start[chosen], end[chosen]))
        for name in (*self.stragglers, OTHERS):
            if name in by_straggler:
                starts, ends = zip(*by_straggler[name], strict=True)
                yield name, union(np.concatenate(starts), np.concatenate(ends))


def _reliable_parts(view: View) -> list[collective_selection.Part]:
    """Groups whose arrivals identify stragglers; none where the matching is not reliable."""
    try:
        require_ranks(view)
        possible_match(view)
    except Refusal:
        return []
    return parts_of(view)


def _stragglers(part: collective_selection.Part) -> Iterator[tuple[str, int, int, int]]:
    """Straggler, total wait it caused, longest wait it caused, and the instance of the latter."""
    arrived, rows = part.arrived, np.flatnonzero(part.rows & part.arrived.delays)
    last = arrived.delaying[rows]
    wait = np.maximum(arrived.wait_ns[rows][:, part.columns], 0).sum(axis=1)
    for member in distinct_values(last[last >= 0]).tolist():
        caused = np.where(last == member, wait, -1)
        if (caused[1:] > 0).any():  # before the first collective nothing was recorded: no cause
            caused[0] = -1
        at = int(caused.argmax())
        total = int(wait[last == member].sum())
        yield arrived.labels[member], total, int(caused[at]), int(rows[at])


def _take_waits(found: _Found, waits: _Waits, rank: RankView, exposed: Intervals) -> Intervals:
    """Add the exposed time in which a rank waited; return the rest."""
    for straggler, time in waits.of(rank.label):
        left = exposed - time
        lost = exposed.total_ns - left.total_ns
        _part(found, "straggler", straggler).add(rank.label, lost, waits.place(straggler), lost)
        exposed = left
    return exposed


def _take_communication(found: _Found, view: View, rank: RankView, exposed: Intervals) -> None:
    for kind, name, group, time in _communication(view, rank, exposed):
        place, weight = _longest(rank.label, time)
        _part(found, kind, name, group).add(rank.label, time.total_ns, place, weight)


def _communication(
    view: View, rank: RankView, exposed: Intervals
) -> Iterator[tuple[Kind, str, int, Intervals]]:
    """Yield kind, name, communicator and time of exposed communication, the longest first."""
    calls, dims = rank.named(rank.device_calls), dims_of_types(view)
    parts = sorted(_by_collective(calls), key=lambda part: (-part[2], part[0], part[1]))
    for number, group, _, rows in parts:
        time = union(calls.start_ns[rows], calls.end_ns[rows]) & exposed
        call = TYPES[number]
        name = call if group < 0 else f"{call} of {view.group_label(group)}"
        is_bubble = call in BETWEEN_STAGES and dims.get((call, group)) == "pp"
        yield "bubble" if is_bubble else "communication", name, group, time
        exposed = exposed - time
    if len(exposed):  # communication kernels that are no call
        yield "communication", UNKNOWN, -1, exposed


def _by_collective(calls: Calls) -> Iterator[tuple[int, int, int, Bool]]:
    """Type, group, total duration and mask of every type of collective of a rank."""
    code = calls.group.astype(np.int64) * len(TYPES) + calls.kind
    for one in distinct_values(code).tolist():
        rows = code == one
        group, kind = divmod(one, len(TYPES))
        yield kind, group, int(calls.dur_ns[rows].sum()), rows


def _take_idle(found: _Found, rank: RankView) -> None:
    for cause, idle in causes_of(rank).items():
        if idle.total_ns:
            place = Place(rank.label, idle.longest_at_ns)
            _part(found, "idle", cause).add(rank.label, idle.total_ns, place, idle.longest_ns)


COMPUTE: Final = "compute"
WAITING: Final = "waiting"
KINDS: Final = (COMPUTE, WAITING, "communication", "bubble", "copies", "idle")
"""Kinds of named parts in the order of a list; within a kind the largest part is first."""

Named = tuple[str, str]
"""Kind and name of a part for a reader: waits in one, communication by parallel dimension."""


def named_parts(view: View) -> dict[str, Counter[Named]]:
    """Return the time of each rank by named part, in ns, by label; none of other groups.

    Raises:
        Refusal: no rank has kernels, or the selection has no device work.
    """
    dims = dims_of_types(view)
    return partition(view).times_by(lambda part: _name(part, dims))


def in_order(total: Mapping[Named, int], parts: Iterable[Named] | None = None) -> list[Named]:
    """Return named parts by kind, the largest of each kind first.

    Args:
        total: time by part, in ns.
        parts: the parts to list; those with time where None.
    """
    kept = [part for part, ns in total.items() if ns > 0] if parts is None else list(parts)
    return sorted(kept, key=lambda part: (KINDS.index(part[0]), -total[part], part[1]))


def _name(part: Part, dims: Mapping[tuple[str, int], str]) -> Named | None:
    if part.kind == "other_groups":
        return None
    if part.kind == "straggler":
        return WAITING, WAITING
    if part.kind in ("communication", "bubble"):
        return part.kind, dims.get((part.what.partition(" of ")[0], part.group), UNKNOWN)
    return part.kind, part.what


class TimeSplit(Struct, frozen=True):
    """Disjoint parts of the windows of one rank, in ns; their sum is ``window``.

    Attributes:
        window: measured time.
        idle: time without device work.
        comp_only: time in computation alone.
        comm_only: time in communication alone, the exposed communication.
        overlap: time in both.
        mem_only: time in copies while no kernel runs; a copy beside a kernel counts as the kernel.
        other_comm: time in collectives of groups that the view does not select.
    """

    window: int
    idle: int
    comp_only: int
    comm_only: int
    overlap: int
    mem_only: int
    other_comm: int

    @property
    def busy(self) -> int:
        """Time in any device work."""
        return self.window - self.idle

    def __add__(self, other: TimeSplit) -> TimeSplit:
        return TimeSplit(*(getattr(self, n) + getattr(other, n) for n in PARTS_AND_WINDOW))


PARTS_AND_WINDOW = TimeSplit.__struct_fields__
PARTS = PARTS_AND_WINDOW[1:]


def split_time(rank: RankView) -> TimeSplit:
    """Return the parts of the rank's windows; the metrics of a view share the result.

    Communication beside a copy is communication here; in `partition` the copy hides it.
    """
    return rank.sum_up(split_time, lambda: _split(rank))


def _split(rank: RankView) -> TimeSplit:
    times = rank.times
    comm, comp, kernels = times.any_of(COMM), times.any_of(COMP), times.any_of(COMM, COMP)
    occupied, chosen = times.busy_ns, times.any_of(COMM, COMP, MEM)
    overlap = comm + comp - kernels
    return TimeSplit(
        window=rank.window_ns,
        idle=rank.window_ns - occupied,
        comp_only=comp - overlap,
        comm_only=comm - overlap,
        overlap=overlap,
        mem_only=chosen - kernels,
        other_comm=occupied - chosen,
    )


def total_of(parts: Iterable[TimeSplit]) -> TimeSplit:
    """Sum parts over ranks."""
    total = TimeSplit(0, 0, 0, 0, 0, 0, 0)
    for part in parts:
        total = total + part
    return total


def split_row(part: TimeSplit) -> dict[str, Any]:
    """Return the JSON form: every part in ms and as a share of the window."""
    row: dict[str, Any] = {f"{name}_ms": milliseconds(getattr(part, name)) for name in PARTS}
    row |= {f"{name}_ratio": ratio(getattr(part, name), part.window) for name in PARTS}
    return {"window_ms": milliseconds(part.window), **row}


def mean_row(parts: Mapping[str, TimeSplit]) -> dict[str, Any]:
    """Return `split_row` over ranks: times are means over ranks, shares those of the sums."""
    total = total_of(parts.values())
    row = split_row(total)
    return {k: v / len(parts) if k.endswith("_ms") else v for k, v in row.items()}


def place_of(view: View, loss: Part) -> dict[str, Any] | None:
    """Return rank, time since the origin, and the collective or the length of the longest stretch.

    None where the loss has no single largest instance.
    """
    place = loss.place
    if place is None:
        return None
    at = int(view.on_job_clock(place.label, np.array(place.time_ns, np.int64))) - view.origin_ns
    seen: dict[str, Any] = {"rank": place.label, "time_us": microseconds(at)}
    if loss.kind != "straggler":
        seen["length_us"] = microseconds(loss.weight)
    elif place.number >= 0:
        arrived = view.arrivals.groups[place.number]
        seen["group"] = describe_group(view, arrived.match.group)["group"]
        seen["group_number"], seen["index"] = place.number, place.row
    return seen
