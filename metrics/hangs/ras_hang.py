"""Judge a hang by reports of NCCL's RAS: processes that are missing, ranks that are behind.

RAS lists the smaller part of the ranks of a communicator, which may be those that are ahead: they
are not to blame. Whoever has launched fewer operations is behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from ccltui.metrics.hangs.hang import Hang, Sure, count_ranks, ranks_text, sentence
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


def ras_hang(reports: Sequence[RasReport], files: tuple[str, ...] = ()) -> Hang | None:
    """Return what the last of some reports of one job says; None without any.

    Events of the monitor come after it: they state processes, and no ranks.
    """
    if not reports:
        return None
    events = [one for one in reports if one.is_of_monitor]
    reports = [one for one in reports if not one.is_of_monitor]
    last = reports[-1] if reports else events[-1]
    before = reports[-2] if len(reports) > 1 else None
    found = list(_all(last, before))
    found += [one for event in events if event is not last for one in _missing(event)]
    first = found[0] if found else _nothing(last)
    more = (*first.more, *(one.text for one in found[1:_MOST_NAMED]))
    if len(reports) > 1:
        more = (*more, f"the last of {len(reports)} reports")
    return structs.replace(
        first,
        text=sentence(first.text),
        more=tuple(sentence(one) for one in more),
        do=sentence(first.do),
        record="ras",
        files=files,
    )


def _all(report: RasReport, before: RasReport | None) -> Iterator[Hang]:
    """Yield what is wrong, the surest cause first."""
    yield from _missing(report)
    for comm in report.communicators:
        for error, ranks, count in comm.errors:
            who = ranks_text([str(rank) for rank in ranks]) if ranks else count_ranks(count)
            verb = "reports" if count == 1 else "report"
            text = f"{who} of {_name(comm)} {verb} {error}"
            yield Hang("errors", text, (), tuple(map(str, ranks)), (), _name(comm), sure="medium",
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
        (report.num_missing, report.missing_processes, "missing: no answer comes from"),
    ):
        if count:
            more = f" and {count - len(named)} more" if 0 < len(named) < count else ""
            who = "; ".join(named[:_MOST_NAMED]) + more if named else "processes that are not named"
            verb = "processes are" if count > 1 else "process is"
            text = f"{count} {verb} {words} {who}"
            yield Hang("peers_missing", text, (), tuple(named), sure="high",
                       do="Look at these processes and their hosts first: the others wait for them",
                       )  # fmt: skip
    for comm in report.communicators:
        if comm.missing:
            ranks = tuple(map(str, comm.missing_ranks))
            who = ranks_text(ranks) if ranks else count_ranks(comm.missing)
            verb = "does" if comm.missing == 1 else "do"
            where = f" ({'; '.join(comm.places[:_MOST_NAMED])})" if comm.places else ""
            text = f"{who} of {_name(comm)} {verb} not answer{where}"
            yield Hang("peers_missing", text, (), ranks, (), _name(comm), sure="high",
                       do="Look at the processes of these ranks first: the others wait for them",
                       )  # fmt: skip


def _status(comm: RasCommunicator, one: RasDifference) -> Hang:
    said = "; ".join(
        f"{ranks_text(list(map(str, part.listed))) if part.listed else count_ranks(part.ranks)} "
        f"{part.status}"
        for part in one.parts
    )
    least = min(one.parts, key=lambda part: part.ranks)
    text = f"ranks of {_name(comm)} differ in status: {said}"
    return Hang("errors", text, (), tuple(map(str, least.listed)), (), _name(comm), sure="medium",
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
    verb = "is" if count == 1 else "are"
    those = ranks_text(of_ahead) if listed_ahead else f"the other {total - count}"
    numbers = f"{least:,}" if len(behind) == 1 else f"{least:,} and more"
    text = (
        f"{who} of {_name(comm)} {verb} behind {those}: {numbers} {what} launched against {most:,}"
    )
    more = []
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
    names = tuple(ranks)
    places = [place for part in behind for place in part.places if place]
    if places:
        more.append(f"they run on {'; '.join(places[:_MOST_NAMED])}")
    return Hang("behind", text, tuple(more), names, tuple(of_ahead), _name(comm), what, least + 1,
                sure, _AGAIN)  # fmt: skip


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
