"""Ranks that arrive late or call something else than their group, by flight recorder dumps.

What may differ by right is not compared: sizes of all-to-all, gather, scatter, lists of uneven
parts, sends and receives, and how a group of operations was coalesced.

With timing on, the time of a collective on the device holds the waiting: the last to arrive has the
shortest. Without it the time of the call tells only where calls are synchronous, as in gloo on one
host: NCCL's calls return at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct

from ccltui.metrics.hangs.flight_job import Call, FlightJob, RankCalls
from ccltui.metrics.hangs.hang import Sure, operation_words
from ccltui.parsers.flight_recorder.dump import NONE

_LEAST_MS: Final = 1.0
"""Lateness below it is noise of hosts and of the resolution of events."""
_LEAST_CALLS: Final = 5
"""Late calls that a name rests on: one of few ranks is the last of four by chance."""
_MOST_OF_ALL: Final = 0.75
"""Share of all lateness that one rank must have to be named."""


class Late(NamedTuple):
    """A rank that is late by itself, in a group: in ``num_late`` of ``num_calls`` collectives.

    ``median_ms`` is the median of those in which it is.
    """

    rank: int
    group: int
    median_ms: float
    num_late: int
    num_calls: int
    by_duration: bool


def late_rank(job: FlightJob) -> Late | None:
    """Return the rank that is late more than all others together, None where there is none."""
    has_timing = all(one.dump.has_timing for one in job.ranks.values())
    is_synchronous = all(one.dump.backends <= {"gloo"} for one in job.ranks.values())
    if len(job.ranks) < 2 or not (has_timing or is_synchronous):
        return None
    late = _by_duration(job) if has_timing else _by_calls(job)
    by_rank: dict[int, float] = defaultdict(float)
    for (rank, _), own in late.items():
        by_rank[rank] += sum(own)
    latest = max(by_rank, key=lambda one: by_rank[one], default=None)
    if latest is None or by_rank[latest] < _MOST_OF_ALL * sum(by_rank.values()):
        return None
    group = max((one for one in late if one[0] == latest), key=lambda one: sum(late[one]))[1]
    own = late[latest, group]
    strong = [one for one in own if one >= _LEAST_MS]
    if len(strong) < _LEAST_CALLS:
        return None
    return Late(latest, group, float(np.median(strong)), len(strong), len(own), has_timing)


def _instances(job: FlightJob) -> Iterator[tuple[int, int, Mapping[int, int]]]:
    """Yield group, number and row by rank of synchronising calls that every member has."""
    for group in job.groups:
        members = [job.ranks.get(rank) for rank in group.members]
        held = [one for one in members if one is not None]
        if len(held) < 2 or len(held) < len(members):
            continue
        numbers = set.intersection(*(set(one.rows.get(group.index, {})) for one in held))
        for seq in sorted(numbers):
            rows = {one.rank: one.rows[group.index][seq][0] for one in held}
            first = held[0].call(rows[held[0].rank])
            if job.is_synchronising(first):
                yield group.index, seq, rows


def _by_duration(job: FlightJob) -> Mapping[tuple[int, int], list[float]]:
    """Return lateness in ms by rank and group: how much shorter its calls are than the longest.

    Only of calls before which all members were in one call, and left it together: what a rank was
    kept waiting elsewhere is no lateness of its own.
    """
    late: dict[tuple[int, int], list[float]] = defaultdict(list)
    for group, _, rows in _instances(job):
        before = {job.ranks[rank].call(row - 1)[1:3] if row else None for rank, row in rows.items()}
        took = {
            rank: float(job.ranks[rank].dump.columns.duration_ms[row]) for rank, row in rows.items()
        }
        if len(before) == 1 and np.isfinite(list(took.values())).all():
            longest = max(took.values())
            for rank, one in took.items():
                late[rank, group].append(longest - one)
    return late


def _by_calls(job: FlightJob) -> Mapping[tuple[int, int], list[float]]:
    """Return own lateness in ms by rank and group, without what a rank was kept elsewhere.

    Nobody leaves a synchronising call before the last has entered it. What a rank takes from there
    to its next call is its own; what the quickest member takes is taken off.
    """
    found = list(_instances(job))
    ends: dict[tuple[int, int], int] = {}  # by rank and row: when the last member entered
    for _, _, rows in found:
        last = max(_created(job.ranks[rank], row) for rank, row in rows.items())
        ends |= dict.fromkeys(rows.items(), last)
    before = {rank: _row_before(calls, ends) for rank, calls in job.ranks.items()}
    late: dict[tuple[int, int], list[float]] = defaultdict(list)
    for group, _, rows in found:
        own = {
            rank: _created(job.ranks[rank], row) - ends[rank, previous]
            for rank, row in rows.items()
            if (previous := before[rank].get(row)) is not None
        }
        if len(own) == len(rows):
            least = min(own.values())
            for rank, one in own.items():
                late[rank, group].append((one - least) / 1e6)
    return late


def _created(calls: RankCalls, row: int) -> int:
    return int(calls.dump.columns.created_ns[row])


def _row_before(calls: RankCalls, ends: Mapping[tuple[int, int], int]) -> Mapping[int, int]:
    """Return for each row with an end the one before it."""
    rows = [row for row in range(len(calls.dump.columns)) if (calls.rank, row) in ends]
    return dict(zip(rows[1:], rows[:-1], strict=True))


Kind = Literal["operation", "size", "type", "left_out"]
_EVEN: Final = (
    *("allreduce", "allreducesparse", "allreducebarrier", "broadcast", "reduce"),
    *("allgatherbase", "reducescatterbase"),
)
"""Operations whose number of elements is the same on all members."""
_BY_TOTAL: Final = {"allgather": "out", "reducescatter": "in"}
"""Operations on lists of parts, which may be uneven: the sum of all is the same on all members."""
_ONE_SIDED: Final = {"gather": "in", "scatter": "out"}
"""Operations whose other side only the root has."""
_LEAST_SHIFTED: Final = 2
"""Calls that agree when they are moved by one, before a call counts as left out."""


class Signature(NamedTuple):
    """What a rank called, as far as members must agree on it; -1 is not compared."""

    operation: str
    types: str
    num_in: int
    num_out: int


class Mismatch(Struct, frozen=True):
    """One call in which members of a group differ, the first of the group.

    Attributes:
        kind: In what they differ; "left_out" where a rank is one call ahead from there on.
        group: The group.
        seq: Number of the call in the group.
        calls: The entry of each rank that has one.
        signatures: What each of them called.
        expected: What is right, None where that cannot be told.
        odd: Ranks that called something else; () where that cannot be told.
        is_hung: Whether a rank stands in the call.
        sure: How sure it is who is wrong.
        by: How it was told: the most of the group, or groups of the same kind.
    """

    kind: Kind
    group: int
    seq: int
    calls: Mapping[int, Call]
    signatures: Mapping[int, Signature]
    expected: Signature | None
    odd: tuple[int, ...]
    is_hung: bool
    sure: Sure
    by: Literal["most", "alike", ""]

    def words(self, signature: Signature, other: Signature) -> str:
        """Return a signature in a sentence, with what it differs in from another."""
        text = operation_words(signature.operation)
        if signature.operation != other.operation:
            alike = text == operation_words(other.operation)
            return f"{text} ({signature.operation})" if alike else text
        sizes = signature.num_in if signature.num_in != NONE else signature.num_out
        types = signature.types.partition(" -> ")[0] or signature.types.rpartition(" -> ")[2]
        return f"{text} of {sizes:,} {types}" if sizes >= 0 else f"{text} of {types}"


def mismatches(job: FlightJob) -> list[Mismatch]:
    """Return the first mismatch of every group that has one: those in which ranks stand first."""
    found = []
    tables: dict[int, dict[int, dict[int, Signature]]] = {}
    for group in job.groups:
        members = list(job.members_with_dump(group.index))
        if len(members) > 1:
            tables[group.index] = {one.rank: dict(_signatures(one, group.index)) for one in members}
    for index, by_rank in tables.items():
        seq = _first_different(by_rank)
        if seq is not None:
            found.append(_judged(job, index, seq, by_rank, tables))
    return sorted(found, key=lambda one: (not one.is_hung, not one.odd, one.group))


def _signatures(calls: RankCalls, group: int) -> Iterator[tuple[int, Signature]]:
    """Yield number and signature of the calls of a group that are not coalesced."""
    for seq, rows in calls.rows.get(group, {}).items():
        if len(rows) == 1:
            yield seq, _signature(calls, rows[0])


def _signature(calls: RankCalls, row: int) -> Signature:
    columns = calls.dump.columns
    operation = calls.operation(row)
    bare = operation.lower().replace("_", "").replace("oop", "")
    ins, _, outs = calls.dump.texts[columns.dtypes[row]].partition(" -> ")
    side = _BY_TOTAL.get(bare) or _ONE_SIDED.get(bare)
    types = {"in": f"{ins} -> ", "out": f" -> {outs}"}.get(side or "", f"{ins} -> {outs}")
    num_in, num_out = int(columns.num_in[row]), int(columns.num_out[row])
    if bare in _EVEN:
        return Signature(operation, types, num_in, num_out)
    if bare in _BY_TOTAL:
        return Signature(operation, types, num_in if side == "in" else NONE,
                         num_out if side == "out" else NONE)  # fmt: skip
    return Signature(operation, types, NONE, NONE)


def _first_different(by_rank: Mapping[int, Mapping[int, Signature]]) -> int | None:
    seen: dict[int, Signature] = {}
    different: int | None = None
    for held in by_rank.values():
        for seq, signature in held.items():
            if seen.setdefault(seq, signature) != signature:
                different = seq if different is None else min(different, seq)
    return different


def _judged(
    job: FlightJob,
    group: int,
    seq: int,
    by_rank: Mapping[int, Mapping[int, Signature]],
    tables: Mapping[int, Mapping[int, Mapping[int, Signature]]],
) -> Mismatch:
    called = {rank: held[seq] for rank, held in by_rank.items() if seq in held}
    calls = {rank: job.ranks[rank].call(job.ranks[rank].rows[group][seq][0]) for rank in called}
    counts = Counter(called.values())
    most, count = counts.most_common(1)[0]
    expected: Signature | None = None
    by: Literal["most", "alike", ""] = ""
    if 2 * count > len(called) and len(called) > 2:
        expected, by = most, "most"
    elif (alike := _of_groups_alike(job, group, seq, counts, tables)) is not None:
        expected, by = alike, "alike"
    odd = () if expected is None else tuple(r for r, one in called.items() if one != expected)
    kind = _kind(list(counts))
    if expected is not None and len(odd) == 1 and _is_ahead(by_rank, odd[0], seq, expected):
        kind = "left_out"
    is_hung = any(not job.ranks[rank].is_done[call.row] for rank, call in calls.items())
    sure: Sure = "high" if by == "most" else "medium" if by else "low"
    return Mismatch(kind, group, seq, calls, called, expected, odd, is_hung, sure, by)


def _of_groups_alike(
    job: FlightJob,
    group: int,
    seq: int,
    variants: Mapping[Signature, int],
    tables: Mapping[int, Mapping[int, Mapping[int, Signature]]],
) -> Signature | None:
    """Return the one variant that groups of the same description and size use at this number."""
    own = job.groups[group]
    used = set()
    for other in job.groups:
        is_alike = other.description == own.description and other.description
        if other.index != group and is_alike and len(other.members) == len(own.members):
            held = tables.get(other.index, {})
            used |= {by_seq[seq] for by_seq in held.values() if seq in by_seq}
    found = used & set(variants)
    return found.pop() if len(found) == 1 and len(used) == 1 else None


def _kind(variants: Sequence[Signature]) -> Kind:
    if len({one.operation for one in variants}) > 1:
        return "operation"
    if len({(one.num_in, one.num_out) for one in variants}) > 1:
        return "type" if len({one.types for one in variants}) > 1 else "size"
    return "type"


def _is_ahead(
    by_rank: Mapping[int, Mapping[int, Signature]], odd: int, seq: int, expected: Signature
) -> bool:
    """Whether a rank is one call ahead of the others from a number on."""
    others: dict[int, Signature] = defaultdict()
    for rank, held in by_rank.items():
        if rank != odd:
            others.update(held)
    mine = by_rank[odd]
    moved = [(mine[at], others[at + 1]) for at in sorted(mine) if at >= seq and at + 1 in others]
    is_alike = all(one == other for one, other in moved)
    return len(moved) >= _LEAST_SHIFTED and is_alike and any(one != expected for one, _ in moved)
