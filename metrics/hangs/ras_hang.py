"""Judge a hang by reports of NCCL's RAS: missing processes, ranks behind, and who waits for whom.

RAS lists the smaller part of the ranks of a communicator, which may be those that are ahead: they
are not to blame. Whoever has launched fewer operations is behind.

RAS numbers ranks inside each communicator. Its reports in JSON state host, process and device of
every rank, so the communicator of all ranks tells the number of a process in the job; without it,
the groups of other records may. Ranks count what they launched: who launched fewer calls of a
communicator than another member did not enter what that one is in.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from ccltui.metrics.hangs.hang import (
    Hang,
    Sure,
    count_ranks,
    few_ranks,
    operation_words,
    ranks_text,
    sentence,
)
from ccltui.parsers.cluster.nccl_log import (
    RasCommunicator,
    RasDifference,
    RasPart,
    RasRank,
    RasReport,
)

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
        return _labels_of(found)

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
        return _missing_ranks(counts)
    stands = None if before is None else counts.state() == Counts(before, numbers).state()
    if stands is not False and len(counts.odd) == 1:
        return _odd(counts, stands=stands)
    roots = counts.roots()
    if counts.is_crossed or (len(roots) > 1 and counts.has_p2p):
        return _unsure(counts)
    if counts.is_whole_communicator(roots):
        who = few_ranks(_labels_of(roots))
        text = (
            f"{who} are behind others by RAS's counts, and are all of a communicator: they may "
            "have entered a call that none finishes"
        )
        return Hang("all_arrived", text, (), (), _labels_of(counts.waits), sure="low", do=_AT_LINKS)
    if roots:
        return _ranks_behind(counts, roots, stands=stands)
    return _unsure(counts) if counts.waits else None


def _unsure(counts: Counts) -> Hang:
    """Say that ranks are apart, where the one at fault cannot be told from those that wait."""
    ranks = _labels_of({*counts.waits, *(one for found in counts.waits.values() for one in found)})
    roots = counts.roots()
    shown = _labels_of(roots if counts.has_p2p and roots else counts.waits)
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


def _missing_ranks(counts: Counts) -> Hang:
    ranks = _labels_of(counts.missing)
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


def _ranks_behind(counts: Counts, roots: Sequence[int], *, stands: bool | None) -> Hang:
    who, named = few_ranks(_labels_of(roots)), ranks_text(_labels_of(roots))
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
    ranks, waits, do = _labels_of(roots), _labels_of(waiting), _DO.format(who=named)
    said = (*names, more)
    return Hang("behind", text, said, ranks, waits, _called(comm), sure=sure, do=do)


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


def _labels_of(ranks: Iterable[int]) -> tuple[str, ...]:
    return tuple(map(str, sorted(ranks)))


_AGAIN: Final = (
    "Ask again after some seconds, twice (ncclras -v): counts that do not move are a hang, and its "
    "ranks are those with the smallest count"
)
_MOST_NAMED: Final = 8


def ras_hang(
    reports: Sequence[RasReport],
    files: tuple[str, ...] = (),
    groups: Sequence[tuple[int, ...]] = (),
) -> Hang | None:
    """Return what the last of some reports of one job says; None without any.

    Events of the monitor come after it: they state processes, and no ranks.

    Args:
        reports: In the order of their times.
        files: Paths of all of them.
        groups: Members of the groups of the job in their order, where other records state them.
    """
    if not reports:
        return None
    events = [one for one in reports if one.is_of_monitor]
    reports = [one for one in reports if not one.is_of_monitor]
    last = reports[-1] if reports else events[-1]
    before = reports[-2] if len(reports) > 1 else None
    found = list(_all(last, before))
    found += [one for event in events if event is not last for one in _missing(event)]
    first = _in_job(found[0] if found else _nothing(last), last, before, groups)
    more = (*first.more, *(_in_full(one) for one in found[1:_MOST_NAMED]))
    if len(reports) > 1:
        more = (*more, f"the last of {len(reports)} reports")
    return structs.replace(
        first,
        text=sentence(_placed(first.text, is_local=first.is_local and bool(first.group))),
        more=tuple(sentence(one) for one in more),
        do=sentence(first.do),
        record="ras",
        files=files,
    )


def _placed(text: str, *, is_local: bool) -> str:
    return of_communicator(text) if is_local else text


def _in_full(one: Hang) -> str:
    """Return the first fact of a verdict: the ranks, the communicator and the numbers."""
    return one.more[0] if one.more else one.text


def _in_job(
    told: Hang, last: RasReport, before: RasReport | None, groups: Sequence[tuple[int, ...]]
) -> Hang:
    """Return a verdict in the numbers of the job, where they are known.

    A rank that is behind in one communicator may wait in another: of several ones all counts
    decide.
    """
    numbers = None if last.is_of_monitor else numbering(last, groups)
    if numbers is None:
        has_world = len(last.communicators) == 1 and not groups
        world = last.communicators[0].size if has_world else None
        is_local = bool(told.ranks) and not has_world
        return structs.replace(told, is_local=is_local, world_size=world)
    alive = Counts(last, numbers).alive
    world = len(numbers.by_process) if numbers.is_of_all else None
    mine = structs.replace(in_job(told, last, numbers), alive=alive, world_size=world)
    several = len(last.communicators) > 1
    by_counts = hang_by_counts(last, before, numbers) if several else None
    if by_counts is None or told.kind == "errors":
        return mine
    if by_counts.kind == "peers_missing":
        return structs.replace(mine, text=by_counts.text, ranks=by_counts.ranks)
    more = (*by_counts.more, _in_full(told))
    return structs.replace(by_counts, more=more, alive=alive, world_size=world)


def _all(report: RasReport, before: RasReport | None) -> Iterator[Hang]:
    """Yield what is wrong, the surest cause first."""
    yield from _missing(report)
    for comm in report.communicators:
        for error, ranks, count in comm.errors:
            labels = tuple(map(str, ranks))
            who, all_of = few_ranks(labels), ranks_text(labels)
            if not labels:
                who = all_of = count_ranks(count)
            verb = "reports" if count == 1 else "report"
            more = (f"{all_of} of {_name(comm)} {verb} {error}",)
            yield Hang("errors", f"{who} {verb} {error}", more, labels, (), _name(comm),
                       sure="medium",
                       do="Look at the logs of these ranks with NCCL_DEBUG=WARN")  # fmt: skip
    for comm in report.communicators:
        for one in comm.differences:
            if any(part.status for part in one.parts):
                yield _status(comm, one)
            elif len(one.parts) > 1:
                yield _behind(comm, one, before)


def _missing(report: RasReport) -> Iterator[Hang]:
    for count, named, words in (
        (report.num_dead, report.dead_processes, "dead: RAS does not reach"),
        (report.num_missing, report.missing_processes, "missing: RAS gets no answer from"),
    ):
        if count:
            state, how = words.split(": ")
            is_one = count == 1 and len(named) == 1
            who = _PLACE.sub("", named[0]) if is_one else f"{count} process{'es' * (count > 1)}"
            text = f"{who} {'is' if count == 1 else 'are'} {state}: {how} "
            text += "it" if count == 1 else "them"
            more = f" and {count - len(named)} more" if 0 < len(named) < count else ""
            yield Hang("peers_missing", text,
                       (f"{state}: {'; '.join(named[:_MOST_NAMED])}{more}",) if named else (),
                       tuple(named), sure="high",
                       do="Look at these processes and their hosts first: the others wait for them",
                       )  # fmt: skip
    for comm in report.communicators:
        if comm.missing:
            ranks = tuple(map(str, comm.missing_ranks))
            who = ranks_text(ranks) if ranks else count_ranks(comm.missing)
            where = "; ".join(comm.places[:_MOST_NAMED])
            verb = "does" if comm.missing == 1 else "do"
            more = f"{who} of {_name(comm)} {verb} not answer{': ' * bool(where)}{where}"
            yield Hang("peers_missing", missing_text(ranks, comm.missing, comm.size), (more,),
                       ranks, (), _name(comm), sure="high",
                       do="Look at the processes of these ranks first: the others wait for them",
                       )  # fmt: skip


_PLACE: Final = re.compile(r" managing GPU .*| \(lost at .*")
"""Of a process: what a first sentence leaves out."""


def _status(comm: RasCommunicator, one: RasDifference) -> Hang:
    said = "; ".join(
        f"{ranks_text(list(map(str, part.listed))) if part.listed else count_ranks(part.ranks)} "
        f"{part.status}"
        for part in one.parts
    )
    least = min(one.parts, key=lambda part: part.ranks)
    labels = tuple(map(str, least.listed))
    rest = [part for part in one.parts if part is not least]
    others = " or ".join(dict.fromkeys(part.status for part in rest))
    text = (
        f"{few_ranks(labels) if labels else count_ranks(least.ranks)} "
        f"{'has' if least.ranks == 1 else 'have'} status {least.status}, and "
        f"{count_ranks(sum(part.ranks for part in rest))} {others}"
    )
    return Hang("errors", text, (f"in {_name(comm)}: {said}",), labels, (), _name(comm),
                sure="medium",
                do="Look at the logs of the ranks with another status than most")  # fmt: skip


def _behind(comm: RasCommunicator, one: RasDifference, before: RasReport | None) -> Hang:
    most = max(part.launched or 0 for part in one.parts)
    ahead = [part for part in one.parts if part.launched == most]
    behind = [part for part in one.parts if part.launched != most]
    what = one.operation or "collectives"
    ranks = _labels(behind, ahead, comm.size)
    count = sum(part.ranks for part in behind)
    least = min(part.launched or 0 for part in behind)
    total = count + sum(part.ranks for part in ahead)
    of_ahead = _labels(ahead, behind, comm.size)
    listed_ahead = [rank for part in ahead for rank in part.listed]
    who = ranks_text(ranks) if ranks and count <= _MOST_NAMED else f"{count} of {total} ranks"
    those = ranks_text(of_ahead) if listed_ahead else f"the other {total - count}"
    numbers = f"{least:,}" if len(behind) == 1 else f"{least:,} and more"
    more = [f"in {_name(comm)} {who} launched {numbers} {what}; {those} launched {most:,}"]
    if listed_ahead and not any(part.listed for part in behind):
        cause = "it causes" if len(listed_ahead) == 1 else "they cause"
        more.append(f"RAS lists {those} because few ranks are ahead, not because {cause} the hang")
    stands = _has_not_moved(comm, one, before)
    sure: Sure = "low"
    if stands:
        more.append("the counts are those of the report before: the communicator makes no progress")
        sure = "high" if len(ranks) == count and count < total - count else "medium"
    elif stands is None:
        apart = most - least
        more.append(
            f"one report of a difference of {apart:,} cannot distinguish a hang from progress"
            + (": ranks of a healthy job differ by 1" if apart == 1 else "")
        )
        sure = "medium" if apart > 1 and len(ranks) == count else "low"
    else:
        more.append("the counts changed since the report before: the communicator makes progress")
    text = _behind_text(one, ranks, of_ahead, (count, total), stands=stands)
    names = tuple(ranks)
    places = [place for part in behind for place in part.places if place]
    if places:
        more.append(f"they run on {'; '.join(places[:_MOST_NAMED])}")
    return Hang("behind", text, tuple(more), names, tuple(of_ahead), _name(comm), what, least + 1,
                sure, _AGAIN)  # fmt: skip


def _behind_text(
    one: RasDifference,
    ranks: Sequence[str],
    ahead: Sequence[str],
    count_of: tuple[int, int],
    *,
    stands: bool | None,
) -> str:
    """Return who is behind by how many calls, and what the others do."""
    count, total = count_of
    others = total - count
    launched = [part.launched or 0 for part in one.parts]
    gap = max(launched) - min(launched)
    calls = operation_words(one.operation) if one.operation else "collective"
    by = f"one {calls}" if gap == 1 else f"{gap:,} {calls}s"
    by = f"up to {by}" if len(one.parts) > 2 else by
    is_named = len(ranks) == count and few_ranks(ranks) == ranks_text(ranks)
    is_known = len(ranks) == count > 1 and len(ahead) == others < _FEW_AHEAD
    whom = "it" if count == 1 else "them"
    if is_named:
        who = ranks_text(ranks)
        rest = (
            "the other" if others == 1 else f"the {others} others" if count == 1 else "the others"
        )
    elif is_known:
        who = f"all ranks but {' and '.join(ahead)}"
        rest = "this one" if others == 1 else "these two"
    else:
        who, rest = f"{count} of {total} ranks", "the other" if others == 1 else "the others"
    text = f"{who} {'is' if count == 1 else 'are'} {by} behind"
    if stands is False:
        return f"{text}, and the communicator makes progress"
    wait = "may wait" if stands is None else "waits" if others == 1 else "wait"
    return f"{text}; {rest} {wait} for {whom}"


_FEW_AHEAD: Final = 3
"""Ranks that are ahead, below which they are named in place of those that are behind."""


def _labels(parts: Sequence[RasPart], others: Sequence[RasPart], size: int | None) -> list[str]:
    """Return the ranks of some parts: as listed, else those that the other parts do not list."""
    listed = [rank for part in parts for rank in part.listed]
    if len(listed) == sum(part.ranks for part in parts):
        return [str(rank) for rank in sorted(listed)]
    elsewhere = {rank for part in others for rank in part.listed}
    if size is not None and len(elsewhere) == sum(part.ranks for part in others):
        return [str(rank) for rank in range(size) if rank not in elsewhere]
    return [str(rank) for rank in sorted(listed)]


def _has_not_moved(
    comm: RasCommunicator, one: RasDifference, before: RasReport | None
) -> bool | None:
    """Return whether the counts are those of the report before, None without one."""
    old = [
        other
        for known in (before.communicators if before else ())
        if known.hash == comm.hash
        for other in known.differences
        if other.operation == one.operation
    ]
    if not old:
        return None
    counts = [sorted((part.launched or 0) for part in each.parts) for each in (old[0], one)]
    return counts[0] == counts[1]


def _name(comm: RasCommunicator) -> str:
    return f"communicator #{comm.number} ({comm.hash})"


def _nothing(report: RasReport) -> Hang:
    count = sum(int(row[1]) for row in report.groups if len(row) > 1 and row[1].isdecimal())
    states = ", ".join(dict.fromkeys(report.statuses))
    text = (
        f"RAS names no rank that is missing or behind in {count:,} "
        f"communicator{'' if count == 1 else 's'} ({states})"
    )
    do = "Ask again if the job hangs: ranks with equal counts wait where all others wait"
    return Hang("nothing", text, sure="medium", do=do)
