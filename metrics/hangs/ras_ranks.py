"""Who waits for whom by the counts of NCCL's RAS, in the numbers that ranks have in the job.

RAS numbers ranks inside each communicator. Its reports in JSON state host, process and device of
every rank, so the communicator of all ranks tells the number of a process in the job; without it,
the groups of other records may. Ranks count what they launched: who launched fewer calls of a
communicator than another member did not enter what that one is in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from ccltui.metrics.hangs.hang import Hang, Sure, count_ranks, few_ranks, ranks_text
from ccltui.parsers.cluster.nccl_log import RasCommunicator, RasRank, RasReport

_Process = tuple[str, int, int]
_LEAST_MAJORITY: Final = 3
"""Ranks that agree against one that launched other types of operations."""
_DO: Final = "Look at {who}: the last lines of its log, and the stack of its process (py-spy dump)"
_AT_LINKS: Final = (
    "Test the group without the program: nccl-tests between the same devices, with "
    "NCCL_DEBUG=INFO; then errors of links and devices (nvidia-smi -q, dmesg)"
)
_SAME_CALLS: Final = (
    "Make all ranks call the same collectives in the same order and size: look for calls under a "
    "condition that depends on the rank, and for uneven batches"
)


class Numbering(Struct, frozen=True):
    """The number in the job of each process, what it is taken from, and if these are all."""

    by_process: Mapping[_Process, int]
    source: str
    is_of_all: bool = False


def numbering(report: RasReport, groups: Sequence[tuple[int, ...]] = ()) -> Numbering | None:
    """Return the numbers of processes in the job, None where nothing tells them.

    Args:
        report: One in JSON.
        groups: Members of the groups of the job, in their order, as dumps of the job state them.
    """
    comms = [one for one in report.communicators if one.ranks]
    if not comms:
        return None
    every = {rank.process for one in comms for rank in one.ranks}
    whole = [one for one in comms if len(one.ranks) == one.size and
             {rank.process for rank in one.ranks} == every]  # fmt: skip
    orders = {tuple(sorted((rank.process, rank.rank) for rank in one.ranks)) for one in whole}
    world = 1 + max((max(group) for group in groups if group), default=-1)
    if len(orders) == 1 and len(every) >= world:
        return Numbering(dict(next(iter(orders))), "the communicator of all ranks", is_of_all=True)
    return _by_groups(comms, groups)


def _by_groups(
    comms: Sequence[RasCommunicator], groups: Sequence[tuple[int, ...]]
) -> Numbering | None:
    """Return numbers by communicators that one group alone has the size of."""
    sizes = Counter(len(group) for group in groups)
    found: dict[_Process, int] = {}
    for one in comms:
        alike = [other for other in comms if other.size == one.size]
        if len(alike) != 1 or sizes[one.size or 0] != 1:
            continue
        group = next(group for group in groups if len(group) == one.size)
        for rank in one.ranks:
            number = group[rank.rank] if rank.rank < len(group) else -1
            if found.setdefault(rank.process, number) != number or number < 0:
                return None
    return Numbering(found, "groups of the dumps") if found else None


class _Member(Struct, frozen=True):
    rank: int
    launched: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.launched.values())


class Counts:
    """What every rank of the job launched, by communicator.

    Attributes:
        missing: Ranks that do not answer.
        waits: Ranks that each rank is ahead of in a communicator.
        odd: Ranks that launched other types of operations than the others, with their communicator.
        is_crossed: Whether such ranks are in a communicator where most do not agree.
    """

    def __init__(self, report: RasReport, numbers: Numbering) -> None:
        self._numbers = numbers.by_process
        self.comms = [one for one in report.communicators if one.ranks]
        self.missing = sorted(
            {self._number(rank) for one in self.comms for rank in one.ranks
             if rank.is_missing and self._is_numbered(rank)}
        )  # fmt: skip
        self.waits: dict[int, set[int]] = defaultdict(set)
        self.odd: dict[int, RasCommunicator] = {}
        self.is_crossed = False
        self._behind: dict[int, tuple[int, RasCommunicator]] = {}
        for one in self.comms:
            self._add(one)

    def _is_numbered(self, rank: RasRank) -> bool:
        return rank.process in self._numbers

    def _number(self, rank: RasRank) -> int:
        return self._numbers[rank.process]

    def _add(self, comm: RasCommunicator) -> None:
        members = [
            _Member(self._number(rank), rank.launched)
            for rank in comm.ranks
            if not rank.is_missing and self._is_numbered(rank)
        ]
        self._add_odd(comm, members)
        most = max((one.total for one in members), default=0)
        for one in members:
            ahead_of = {other.rank for other in members if other.total < one.total}
            if ahead_of:
                self.waits[one.rank] |= ahead_of
            gap = most - one.total
            if gap and gap > self._behind.get(one.rank, (0, comm))[0]:
                self._behind[one.rank] = gap, comm

    def _add_odd(self, comm: RasCommunicator, members: Sequence[_Member]) -> None:
        """Find the rank that is ahead of all others in one type and behind them in another.

        Members of one program differ by how far they are, so that all of their counts are ordered.
        """
        for one in members:
            others = [other for other in members if other is not one]
            crossed = [other for other in others if _is_crossed(one.launched, other.launched)]
            if len(crossed) == len(others) >= _LEAST_MAJORITY:
                self.odd.setdefault(one.rank, comm)
            elif crossed and len(others) < _LEAST_MAJORITY:
                self.is_crossed = True

    @property
    def alive(self) -> tuple[str, ...]:
        """Ranks that answer."""
        found = {self._number(rank) for one in self.comms for rank in one.ranks
                 if not rank.is_missing and self._is_numbered(rank)}  # fmt: skip
        return _labels(found)

    def roots(self) -> list[int]:
        """Return the ranks that are behind others and ahead of nobody."""
        behind = {rank for targets in self.waits.values() for rank in targets}
        return sorted(behind - set(self.waits))

    @property
    def has_p2p(self) -> bool:
        """Whether ranks send and receive, in which they may wait without a count that tells."""
        return any(rank.num_p2p for one in self.comms for rank in one.ranks) or any(
            not any(_total(rank)[1] for rank in one.ranks) for one in self.comms
        )

    def is_whole_communicator(self, ranks: Sequence[int]) -> bool:
        """Return whether some ranks are all of a communicator, none of them behind in it.

        All of them may stand in one call that none finishes: a link or a device, and nobody late.
        """
        for comm in self.comms:
            members = sorted(self._number(rank) for rank in comm.ranks if self._is_numbered(rank))
            totals = {_total(rank)[1] for rank in comm.ranks}
            if members == list(ranks) and len(members) > 1 and len(totals) == 1 and totals != {0}:
                return True
        return False

    def gap(self, rank: int) -> tuple[int, RasCommunicator]:
        """Return by how many calls a rank is behind at most, and in which communicator."""
        return self._behind[rank]

    def state(self) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
        """Return all counts: those that are equal in two reports mean that nothing moves."""
        comms = sorted(self.comms, key=lambda one: one.hash)
        return tuple((comm.hash, tuple(sorted(map(_total, comm.ranks)))) for comm in comms)


def _total(rank: RasRank) -> tuple[int, int]:
    return rank.rank, sum(rank.launched.values())


def _is_crossed(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    apart = [one.get(name, 0) - other.get(name, 0) for name in {*one, *other}]
    return min(apart, default=0) < 0 < max(apart, default=0)


def hang_by_counts(report: RasReport, before: RasReport | None, numbers: Numbering) -> Hang | None:
    """Return who is missing or behind in the numbers of the job; None where nobody is."""
    counts = Counts(report, numbers)
    if counts.missing:
        return _missing(counts)
    stands = None if before is None else counts.state() == Counts(before, numbers).state()
    if stands is not False and len(counts.odd) == 1:
        return _odd(counts, stands=stands)
    roots = counts.roots()
    if counts.is_crossed or (len(roots) > 1 and counts.has_p2p):
        return _unsure(counts)
    if counts.is_whole_communicator(roots):
        who = few_ranks(_labels(roots))
        text = (
            f"{who} are behind others by RAS's counts, and are all of a communicator: they may "
            "have entered a call that none finishes"
        )
        return Hang("all_arrived", text, (), (), _labels(counts.waits), sure="low", do=_AT_LINKS)
    if roots:
        return _behind(counts, roots, stands=stands)
    return _unsure(counts) if counts.waits else None


def _unsure(counts: Counts) -> Hang:
    """Say that ranks are apart, where the one at fault cannot be told from those that wait."""
    ranks = _labels({*counts.waits, *(one for found in counts.waits.values() for one in found)})
    roots = counts.roots()
    shown = _labels(roots if counts.has_p2p and roots else counts.waits)
    if counts.is_crossed:
        text = "ranks of a communicator launched different types of collectives, in equal parts"
    elif counts.has_p2p and roots:
        text = (
            f"{few_ranks(shown)} {'is' if len(roots) == 1 else 'are'} behind by RAS's counts, and "
            "some of them may wait in a receive, which no count tells"
        )
    else:
        text = (
            f"{few_ranks(shown)} are ahead of others in one communicator and "
            "behind in another: RAS's counts do not tell who is at fault"
        )
    named = ranks_text(shown) if shown else ""
    more = (f"these are {named}",) if named and named not in text and not counts.is_crossed else ()
    return Hang("abstained", text, more, (), ranks, sure="low", do=_SAME_CALLS)


def missing_text(ranks: Sequence[str], count: int, total: int | None) -> str:
    """Return that ranks do not answer, and how many others do.

    Args:
        ranks: Those that do not, as far as they are known.
        count: How many do not.
        total: How many there are, None where that is not known.
    """
    who = few_ranks(ranks) if ranks else count_ranks(count)
    verb = "does" if count == 1 else "do"
    others = (total or 0) - count
    answer = f"; the {others} others do" if others > 1 else "; the other does" if others else ""
    return f"{who} {verb} not answer RAS{answer}"


def _missing(counts: Counts) -> Hang:
    ranks = _labels(counts.missing)
    text = missing_text(ranks, len(ranks), len(ranks) + len(counts.alive))
    return Hang("peers_missing", text, (), ranks, sure="high",
                do=f"Look at the processes of {ranks_text(ranks)} first: the others wait for them",
                )  # fmt: skip


def _odd(counts: Counts, *, stands: bool | None) -> Hang:
    ((rank, comm),) = counts.odd.items()
    text = (
        f"rank {rank} launched other types of collectives than the {(comm.size or 1) - 1} other "
        f"ranks of a communicator"
    )
    return Hang("mismatch", text, (), (str(rank),), group=_called(comm),
                sure="medium" if stands else "low", do=_SAME_CALLS)  # fmt: skip


def _behind(counts: Counts, roots: Sequence[int], *, stands: bool | None) -> Hang:
    who, named = few_ranks(_labels(roots)), ranks_text(_labels(roots))
    gap, comm = max((counts.gap(rank) for rank in roots), key=lambda one: one[0])
    waiting = sorted(set(counts.waits) - set(roots))
    calls = "one call" if gap == 1 else f"{gap:,} calls"
    num = len(waiting)
    others = count_ranks(num) if len(roots) == 1 else "another" if num == 1 else "others"
    text = (
        f"{who} {'is' if len(roots) == 1 else 'are'} {calls} behind by RAS's counts; "
        f"{others} {'waits' if num == 1 else 'wait'} for {'it' if len(roots) == 1 else 'them'}"
    )
    more = {
        True: "the counts are those of the report before: nothing moves",
        False: "the counts changed since the report before: the job makes progress",
        None: "one report cannot distinguish a hang from progress: ranks of a healthy job differ "
        "by 1",
    }[stands]
    sure: Sure = "low"
    if stands:
        sure = "high" if len(waiting) > 1 and not counts.has_p2p else "medium"
    elif stands is None and gap > 1 and len(waiting) > 1:
        sure = "medium"
    if len(roots) > 1:  # they may wait for one another: only one that is alone is behind all
        sure = "low"
    names = () if named == who else (f"behind are {named}",)
    return Hang("behind", text, (*names, more), _labels(roots), _labels(waiting), _called(comm),
                sure=sure, do=_DO.format(who=named))  # fmt: skip


def in_job(told: Hang, report: RasReport, numbers: Numbering) -> Hang:
    """Return what RAS says of ranks of a communicator in the numbers of the job."""
    comm = next((one for one in report.communicators if _called(one) == told.group), None)
    if comm is None:
        return told
    named = {str(rank.rank): numbers.by_process.get(rank.process) for rank in comm.ranks}
    ranks, waiting = ([named.get(one) for one in group] for group in (told.ranks, told.waiting))
    if None in ranks or None in waiting:
        return structs.replace(told, is_local=True)
    labels = tuple(str(one) for one in ranks)
    more = told.more
    text = told.text
    if labels != told.ranks:
        more = (f"{ranks_text(labels)} in the job, by {numbers.source}", *more)
        text = of_communicator(text)
    return structs.replace(
        told, text=text, ranks=labels, waiting=tuple(map(str, waiting)), more=more
    )


def of_communicator(text: str) -> str:
    """Return a sentence whose ranks are numbered inside a communicator."""
    return f"in one communicator, {text[:1].lower()}{text[1:]}"


def _called(comm: RasCommunicator) -> str:
    return f"communicator #{comm.number} ({comm.hash})"


def _labels(ranks: Iterable[int]) -> tuple[str, ...]:
    return tuple(map(str, sorted(ranks)))
