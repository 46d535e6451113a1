"""Links whose transfers take longer than those of links like them, and slow links between hosts.

The last member of a call to arrive waits for nobody, so that the shortest member is the transfer.
No replay is needed: only that calls are matched, and most of those of one link would have to be
matched wrongly to make it look slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_rows, distinct_values, median_along
from ccltui.metrics.arrays.typical import lower_median, lower_medians
from ccltui.metrics.collectives.matching.match import RECV, SEND
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.findings.rank_time.partition import split_time
from ccltui.metrics.findings.replay.job_facts import job_facts
from ccltui.metrics.findings.replay.ladder import (
    MAX_DELAYED_ERROR,
    MAX_EARLY,
    MAX_UNLINKED,
    ladder_of,
)
from ccltui.metrics.findings.replay.lines.step_replay import DeadlockError
from ccltui.metrics.findings.replay.savings import savings_of
from ccltui.metrics.findings.replay.verdict_rules import why_apart
from ccltui.metrics.findings.waits.own_times import NamedByTimes, busy_excess
from ccltui.metrics.model.bandwidth import wire_factor
from ccltui.metrics.model.calls import streams_of
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.words import BETWEEN_HOSTS, STAGES
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.lines.job_lines import JobLines
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

LEAST_FACTOR: Final = 2.0
"""A slow link takes this many times as long as those like it: paths of one host differ by less."""
MOST_UNSIZED: Final = 30.0
"""Collectives of unknown sizes that take longer by more than this move more data, or their ranks
wait in them. Pairs of stages send each other equal amounts."""
APART: Final = 0.3
"""Other links have at most this share of its excess."""
EQUAL: Final = 0.1
"""Most by which the times of the two ends of one transfer differ: they begin a little apart."""
SAME_STAGE: Final = 1.5
"""Most by which ranks of one stage differ in sends and receives, as windows are cut; inner stages
have twice as many as outer ones."""
LATE: Final = 0.5
"""Share of what a link costs by which another rank is busy longer, so that its members may wait for
that one: calls that are matched wrongly may all wait for it."""
FEWEST: Final = 4
"""Fewer transfers of a link tell little."""
SLOW_GBPS: Final = 20.0
"""Bandwidth a rank below which transfers between hosts are slow: devices of today have 200 Gb/s
each in a cluster for training, of which a healthy network gives four fifths."""
LARGE_BYTES: Final = 1_000_000
"""Smaller messages are bound by latency."""
LEAST_SHARE: Final = 0.1
"""Share of the time that slow transfers take, for all those between hosts to be named, and for one
link to be named surely: stages of a pipeline have slack that takes up less."""
LEAST_COST: Final = 0.01
"""Share of the time that a slow link has to cost to be named: steps vary by as much anyway."""
SLOW_NETWORK: Final = 10.0
"""A link between hosts is slow from this many times what those inside of hosts take, which have up
to nine times the bandwidth of a network of 400 Gb/s."""
SENDRECV: Final = TYPES.index("SendRecv")


def slow_link(view: View) -> NamedByTimes | None:
    """Return the link that is slow, None where none stands out; views share the result."""
    return view.remember(slow_link, lambda: _slow_link(view))


def _slow_link(view: View) -> NamedByTimes | None:
    try:
        exposed = _exposed(view)
    except Refusal:
        return None
    try:
        job = ladder_of(view).job
    except Refusal:
        return _slow_members(view, exposed) or _longer_than_computing(view, exposed)
    links = _links(job)
    one = _slowest(view, job, links, exposed)
    if one is not None and one.share >= LEAST_COST:
        return one
    other = (
        _between_stages(view, job, exposed)
        or _between_hosts(job, links, exposed)
        or _slow_members(view, exposed)
    )
    if other is not None and (one is None or other.ranks != one.ranks):
        return other  # it is not the link that costs nothing
    return _longer_than_computing(view, exposed)


def _exposed(view: View) -> Mapping[str, float]:
    """Return the share of the time of each rank that transfers take while nothing computes.

    Copies count: engines for copies gather what other ranks hold.
    """
    parts = {rank.label: split_time(rank) for rank in device_ranks(view)}
    return {
        label: (one.comm_only + one.mem_only) / max(one.window, 1) for label, one in parts.items()
    }


class _Links(Struct, frozen=True):
    """Links of a job: ``number`` of each instance, and the members (indices) of each link."""

    number: I64
    members: Sequence[tuple[int, ...]]
    is_pair: Sequence[bool]


def _links(job: JobLines) -> _Links:
    """Number the links: pairs of ranks, and groups of the same ranks."""
    table = job.table
    of_group: dict[int, set[int]] = {}
    group = np.append(table.group, MISSING)[table.instance]
    number = np.where(group >= 0, group * len(job.labels) + table.rank[table.line], MISSING)
    for one in distinct_values(number).tolist():
        if one >= 0:
            of_group.setdefault(one // len(job.labels), set()).add(one % len(job.labels))
    sides = np.sort(table.pair, axis=1)
    keys, place = distinct_rows(table.group, sides[:, 0], sides[:, 1])
    numbers: dict[tuple[bool, tuple[int, ...]], int] = {}
    of_key = [
        numbers.setdefault(
            (group < 0, tuple(sorted(of_group[group] if group >= 0 else pair))), len(numbers)
        )
        for group, *pair in keys.T.tolist()
    ]
    return _Links(
        np.array(of_key, np.int64)[place],
        [ranks for _, ranks in numbers],
        [one for one, _ in numbers],
    )


def _slowest(
    view: View, job: JobLines, links: _Links, exposed: Mapping[str, float]
) -> NamedByTimes | None:
    own = job.table.transfer_ns.astype(np.float64)
    usual = _usual_ns(job, links.number, own)
    known = ~np.isnan(usual)
    size = len(links.members)
    spent = np.bincount(links.number[known], weights=own[known], minlength=size)
    should = np.bincount(links.number[known], weights=usual[known], minlength=size)
    count = np.where(_are_whole(view, links), np.bincount(links.number[known], minlength=size), 0)
    excess = np.where(count >= FEWEST, spent - should, 0.0)
    ratio = np.where(should > 0, spent / np.maximum(should, 1.0), 1.0)
    if not (excess > 0).any():
        return None
    worst = int(excess.argmax())
    mine = known & (links.number == worst)
    usually = float(median_along(own[mine] / np.maximum(usual[mine], 1.0)))
    others = np.delete(np.where(count >= FEWEST, ratio, 1.0), worst)
    least, other = min(usually, float(ratio[worst])), float(others.max(initial=1.0))
    if least < LEAST_FACTOR or other - 1 > APART * (ratio[worst] - 1):
        return None
    is_sized = links.is_pair[worst] or bool((job.table.bytes[mine] > 0).any())
    if least > MOST_UNSIZED and not is_sized:
        return None
    labels = tuple(job.labels[rank] for rank in links.members[worst])
    waits = [exposed[label] for label in labels if label in exposed]
    share = min(float(excess[worst] / job.measured_ns.sum()), max(waits, default=0.0))
    replayed = _replayed(view, mine, usual)
    if replayed is not None:
        share = min(share, replayed)
    doubtful = bool(view.job.missing_ranks) or count[worst] < 2 * FEWEST or share < LEAST_SHARE
    doubtful |= _latest_of_others(view, labels) > LATE * share
    return NamedByTimes(
        "slow_link",
        labels,
        share,
        "low" if doubtful else "medium",
        float(ratio[worst]),
        is_pair=links.is_pair[worst],
    )


def _between_stages(view: View, job: JobLines, exposed: Mapping[str, float]) -> NamedByTimes | None:
    """Return two stages whose transfers are slow, by their median, as those of no others are.

    All stages of a pipeline send each other as much: their boundaries are compared.
    """
    table, stage = job.table, job.stages.stage
    sides = np.stack([stage[table.pair[:, 0]], stage[table.pair[:, 1]]])
    between = (
        (table.pair[:, 0] >= 0) & (np.abs(sides[0] - sides[1]) == 1) & (sides.min(axis=0) >= 0)
    )
    if job.stages.wraps or not between.any():
        return None
    boundary = np.where(between, sides.min(axis=0), MISSING)
    own = table.transfer_ns.astype(np.float64)
    counts = np.bincount(boundary[between], minlength=job.stages.count - 1)
    if len(counts) < 2 or counts.min() < FEWEST:
        return None
    times = lower_medians(own[between], boundary[between], len(counts))
    sizes = lower_medians(table.bytes[between].astype(np.float64), boundary[between], len(counts))
    worst = int(times.argmax())
    others = np.delete(times, worst)
    typical = max(lower_median(others), 1.0)
    factor = float(times[worst] / typical)
    number = {host: place for place, host in enumerate(job.hosts)}
    hosts = np.array([number[host] for host in job.hosts], np.int64)[table.pair[between]]
    away = np.bincount(boundary[between], hosts[:, 0] != hosts[:, 1], len(counts)) > 0
    is_network = away[worst] and not np.delete(away, worst).any()
    if factor < (SLOW_NETWORK if is_network else LEAST_FACTOR) or len(set(sizes.tolist())) > 1:
        return None
    if float(others.max()) - typical > APART * (times[worst] - typical):
        return None
    mine = boundary == worst
    replayed = _replayed(view, mine, np.where(mine, typical, own))
    spent = float(np.maximum(own[mine] - typical, 0.0).sum()) * 2 / len(job.labels)
    waits = float(np.mean(list(exposed.values()))) if exposed else 0.0
    share = min(spent / float(job.measured_ns.sum()), waits) if replayed is None else replayed
    if share < LEAST_COST:
        return None
    low, high = worst, worst + 1
    name = f"{STAGES}{low} and {high}"
    return NamedByTimes("slow_link", (), share, "low", factor, group=name)


def _replayed(view: View, mine: Bool, usual: F64) -> float | None:
    """Return the share of the time that usual transfers of a link save, None where it is not told.

    A link may be slow at no cost: its members then wait for others, whatever their transfers take.
    The replay follows every wait, unless some behind the link's transfers are for nobody known.

    Args:
        view: the view.
        mine: mask of the instances of the link.
        usual: usual time of each instance.
    """
    try:
        savings = savings_of(view)
        ladder, job = savings.ladder, savings.ladder.job
        is_exact = ladder.mean_error <= MAX_DELAYED_ERROR and ladder.early_share <= MAX_EARLY
    except (Refusal, DeadlockError):
        return None
    # Ranks that seem to wait for no others may do so in calls without a match.
    untold = len(job.together) > 1 and bool((job.table.instance < 0).any())
    untold |= why_apart(job, names_only=job_facts(view).names_only) is not None
    unlinked, hidden = _unlinked_behind(job, mine)
    if not is_exact or untold or unlinked > MAX_UNLINKED:
        return None
    own = ladder.recorded_transfer
    saved = savings.with_transfers(np.where(mine, np.minimum(own, usual), own))
    return saved / float(ladder.delayed.mean()) + hidden


def _unlinked_behind(job: JobLines, mine: Bool) -> tuple[float, float]:
    """Return the share of calls without a match in those behind the first ones of a link.

    Then their share of the time, which is the most that they hide. Counted are the calls of the
    members: what others wait for is behind theirs.
    """
    table = job.table
    calls = np.flatnonzero(np.append(mine, False)[table.instance])
    begin = np.full(table.num_lines, np.iinfo(np.int64).max)
    np.minimum.at(begin, table.line[calls], table.start_ns[calls])
    behind = table.start_ns >= begin[table.line]
    unlinked = float(table.dur_ns[behind & (table.instance < 0)].sum())
    spent = float(job.measured_ns[table.step[np.unique(table.line[calls])]].sum())
    return unlinked / max(int(table.dur_ns[behind].sum()), 1), unlinked / max(spent, 1.0)


def _are_whole(view: View, links: _Links) -> Bool:
    """Whether each link may be a pair or a group: sizes of groups divide the number of ranks.

    Other sets lack a member whose calls are matched elsewhere, and may wait for that one.
    """
    count = len(view.job.ranks) + len(view.job.missing_ranks)
    whole = [
        is_pair or count % len(ranks) == 0
        for ranks, is_pair in zip(links.members, links.is_pair, strict=True)
    ]
    return np.array(whole, np.bool_)


def _usual_ns(job: JobLines, number: I64, own: F64) -> F64:
    """Return the usual time of each instance: that of the typical link of its operation and size.

    NaN where no other link has such transfers.
    """
    alike = job.table.alike
    cells, cell = distinct_rows(alike, number)
    times = lower_medians(own, cell, cells.shape[1])
    count = int(alike.max(initial=-1)) + 1
    links = np.bincount(cells[0], minlength=count)
    typical = np.where(links > 1, lower_medians(times, cells[0], count), np.nan)
    return np.asarray(typical[alike])


def _between_hosts(
    job: JobLines, links: _Links, exposed: Mapping[str, float]
) -> NamedByTimes | None:
    """Return all links between hosts, where they are slower than any network should be."""
    hosts = job.hosts
    away = np.array([len({hosts[rank] for rank in ranks}) > 1 for ranks in links.members], np.bool_)
    table = job.table
    large = np.flatnonzero(away[links.number] & (table.bytes >= LARGE_BYTES))
    if len(large) < FEWEST:
        return None
    kind = np.zeros(len(table.transfer_ns), np.int64)
    calls = np.flatnonzero(table.instance >= 0)
    kind[table.instance[calls]] = table.kind[calls]
    size = np.array([len(links.members[one]) for one in links.number[large].tolist()])
    factor = np.nan_to_num(wire_factor(kind[large], size))
    spent = table.transfer_ns[large].astype(np.float64)
    moved = table.bytes[large] * factor
    if not moved.any():
        return None
    gbps = float(median_along((moved / np.maximum(spent, 1.0))[moved > 0]))
    of_rank = float((spent * size).sum()) / len(job.labels)
    waits = float(np.mean(list(exposed.values()))) if exposed else 0.0
    share = min(of_rank / float(job.measured_ns.sum()), waits)
    if gbps >= SLOW_GBPS or share < LEAST_SHARE:
        return None
    return NamedByTimes("slow_link", (), share, "low", group=BETWEEN_HOSTS, gbps=gbps)


def _slow_members(view: View, exposed: Mapping[str, float]) -> NamedByTimes | None:
    """Return ranks whose calls of one kind and stream are all long, as those of no other rank are.

    Nothing is matched: who waits for a late rank has long calls too, but then that rank has short
    ones and is busy longer than they are.
    """
    by_queue = _by_queue(view)
    if any(kind in (SEND, RECV) for kind, _ in by_queue):
        return None  # stages wait for each other, in all calls, by the schedule
    sent = [durations for (kind, _), durations in by_queue.items() if kind == SENDRECV]
    # Rings of all ranks send equally often on all stages; a direction of a pipeline lacks one.
    staged = [one for one in sent if len(one) < len(exposed) or not _in_rings(one)]
    found = [
        _long_calls(view, durations, exposed)
        for durations in by_queue.values()
        if not any(durations is one for one in staged)
    ]
    # The ranks of one of two stages, which send equally often, differ from the rest in their work.
    half = len(exposed) // 2 if sent else 0
    likely = [
        one
        for one in found
        if one is not None and len(one.ranks) != half and _may_be_group(one.ranks, staged)
    ]
    return _slow_ends(view, sent, exposed) or max(likely, key=lambda one: one.share, default=None)


def _by_queue(view: View) -> Mapping[tuple[int, int], Mapping[str, I64]]:
    """Return how long calls of each kind and stream take, by rank."""
    found: dict[tuple[int, int], dict[str, I64]] = {}
    for rank in device_ranks(view):
        calls = rank.device_calls
        queues, number = distinct_rows(calls.kind, streams_of(rank.trace, calls))
        for place, (kind, stream) in enumerate(queues.T.tolist()):
            found.setdefault((kind, stream), {})[rank.label] = calls.dur_ns[number == place]
    return found


def _may_be_group(ranks: Sequence[str], sent: Sequence[Mapping[str, I64]]) -> bool:
    """Whether ranks send and receive about equally often, as members of a group of one stage do.

    Outer stages do so half as often: ranks of several are those that wait for a slow pipeline.
    """
    counts = [sum(len(one[label]) for one in sent if label in one) for label in ranks]
    return max(counts) <= SAME_STAGE * min(counts)


def _slow_ends(
    view: View, sent: Sequence[Mapping[str, I64]], exposed: Mapping[str, float]
) -> NamedByTimes | None:
    """Return two ranks that alone of their streams have long transfers, equally many and long.

    Where one end waits for the other the transfers of that other are short: both are long only
    where the transfer itself is.
    """
    ends = [end for one in sent if (end := _long_end(one)) is not None]
    pairs = [
        (one, other)
        for place, one in enumerate(ends)
        for other in ends[place + 1 :]
        if one.label != other.label and one.is_same(other)
    ]
    labels = {
        tuple(label for label in exposed if label in (one.label, other.label))
        for one, other in pairs
    }
    if len(labels) != 1:
        return None
    (ranks,) = labels
    one = max((one for one, _ in pairs), key=lambda one: one.excess_ns)
    window = sum(rank.window_ns for rank in device_ranks(view)) / len(exposed)
    share = min(one.excess_ns / window, max(exposed[label] for label in ranks))
    if _latest_of_others(view, ranks) > APART * share:
        return None
    return NamedByTimes("slow_link", ranks, share, "low", one.factor, is_pair=True)


class _End(Struct, frozen=True):
    """A rank whose transfers of one stream take long, by how much they exceed those of others."""

    label: str
    count: int
    low_ns: float
    factor: float
    excess_ns: float

    def is_same(self, other: _End) -> bool:
        """Return whether both are ends of one link: as many transfers of about one time."""
        low, high = sorted((self.low_ns, other.low_ns))
        return self.count == other.count and high <= (1 + EQUAL) * low


def _long_end(durations: Mapping[str, I64]) -> _End | None:
    """Return the only rank whose transfers of a stream are long, None where it is not one."""
    if len(durations) < 2 or min(map(len, durations.values())) < FEWEST:
        return None
    quarter = {label: float(np.quantile(one, 0.25)) for label, one in durations.items()}
    typical = max(lower_median(np.array(list(quarter.values()))), 1.0)
    label = max(quarter, key=lambda one: quarter[one])
    low = quarter[label]
    rest = max(one for other, one in quarter.items() if other != label)
    if low < LEAST_FACTOR * typical or rest - typical > APART * (low - typical):
        return None
    spent = float(np.minimum(durations[label], low).sum())
    return _End(label, len(durations[label]), low, low / typical, spent * (1 - typical / low))


def _latest_of_others(view: View, members: Sequence[str]) -> float:
    """Return by how much the busiest rank of all others is busy longer than the typical one."""
    others = [one for label, one in busy_excess(view).items() if label not in members]
    return max(others, default=0.0)


def _in_rings(durations: Mapping[str, I64]) -> bool:
    """Whether ranks send and receive by one kernel equally often: inner stages do so twice."""
    return len({len(one) for one in durations.values()}) == 1


def _may_be_stages(ranks: Sequence[RankView]) -> bool:
    """Whether ranks may wait for each other by the schedule of a pipeline.

    All-to-alls and rings run the kernel of sends and receives too, equally often on all ranks.
    """
    kinds = {rank.label: rank.device_calls.kind for rank in ranks}
    both = {label: np.flatnonzero(kind == SENDRECV) for label, kind in kinds.items()}
    return not _in_rings(both) or any(np.isin(one, (SEND, RECV)).any() for one in kinds.values())


def _longer_than_computing(view: View, exposed: Mapping[str, float]) -> NamedByTimes | None:
    """Return all links between hosts, where transfers take longer than computing on every rank.

    Nobody is late then, as the last rank would wait for nobody; sizes need not be recorded.
    Whether the network is slow or its work too much is not told.
    """
    ranks = device_ranks(view)
    if len({rank.trace.host for rank in ranks}) < 2 or _may_be_stages(ranks):
        return None
    least = min(exposed.values(), default=0.0)
    longest = max(rank.comp_ns / max(rank.window_ns, 1) for rank in ranks)
    if least <= longest:
        return None
    return NamedByTimes("slow_link", (), least, "low", group=BETWEEN_HOSTS)


def _long_calls(
    view: View, durations: Mapping[str, I64], exposed: Mapping[str, float]
) -> NamedByTimes | None:
    """Return the ranks whose calls of one queue are long; see `_slow_members`."""
    count, ranks = len(durations), len(exposed)
    if count < 4 or min(len(one) for one in durations.values()) < FEWEST:
        return None
    quarter = {label: float(np.quantile(one, 0.25)) for label, one in durations.items()}
    typical = lower_median(np.array(list(quarter.values())))
    slow = [label for label, one in quarter.items() if one > LEAST_FACTOR * max(typical, 1.0)]
    size = len(slow)
    if (
        not 2 <= size <= count // 2 or count % size or ranks % size
    ):  # groups of a kind have one size
        return None
    low, high = min(quarter[one] for one in slow), max(quarter[one] for one in slow)
    rest = max(one for label, one in quarter.items() if label not in slow)
    if high > (1 + APART) * low or rest - typical > APART * (low - typical):
        return None
    factor = low / max(typical, 1.0)
    spent = sum(float(np.minimum(durations[one], low).sum()) for one in slow) / size
    window = sum(rank.window_ns for rank in device_ranks(view)) / ranks
    share = min(spent * (1 - 1 / factor) / window, max(exposed[one] for one in slow))
    late = _latest_of_others(view, slow)
    return (
        None
        if late > APART * share
        else NamedByTimes("slow_link", tuple(slow), share, "low", factor)
    )
