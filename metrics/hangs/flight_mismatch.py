"""Ranks that called something else than the other members of a group: operation, size, type, order.

What may differ by right is not compared: sizes of all-to-all, gather, scatter, lists of uneven
parts, sends and receives, and how a group of operations was coalesced.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from ccltui.metrics.hangs.flight_job import Call, FlightJob, RankCalls
from ccltui.metrics.hangs.hang import Sure, operation_words
from ccltui.parsers.flight_recorder.dump import NONE

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
