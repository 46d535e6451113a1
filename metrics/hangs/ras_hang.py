"""Judge a hang by reports of NCCL's RAS: processes that are missing, ranks that are behind.

RAS lists the smaller part of the ranks of a communicator, which may be those that are ahead: they
are not to blame. Whoever has launched fewer operations is behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from ccltui.metrics.hangs.hang import (
    Hang,
    Sure,
    count_ranks,
    few_ranks,
    operation_words,
    ranks_text,
    sentence,
)
from ccltui.metrics.hangs.ras_ranks import (
    Counts,
    hang_by_counts,
    in_job,
    missing_text,
    numbering,
    of_communicator,
)
from ccltui.parsers.cluster.nccl_log import (
    RasCommunicator,
    RasDifference,
    RasPart,
    RasReport,
)

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
