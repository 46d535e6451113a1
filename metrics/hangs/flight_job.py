"""The flight recorder dumps of one job, joined: groups by members, and what each rank did in them.

Ranks are never aligned by ``record_id``: it counts what the process enqueued, over all groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.hangs.hang import operation_words, ranks_text
from ccltui.parsers.array_types import I64
from ccltui.parsers.flight_recorder.dump import COMPLETED, SCHEDULED, Bools, FlightDump, Frame
from ccltui.parsers.safe_text import printable

SYNCHRONISING: Final = ("allreduce", "allgather", "reducescatter", "alltoall")
"""Operations that no member finishes before all have entered."""
_DEFAULT: Final = "default_pg"
_SAYS_NOTHING: Final = frozenset(
    {"undefined", "nccl", "ncclx", "gloo", "rccl", "rcclx", "hccl", "xccl", "mccl"}
)
"""Descriptions of groups that nobody described; torchcomms has the backend there."""
_FIRST_WITH_BATCHED: Final = (2, 7)
"""Version from which each operation of a coalesced group has an entry of its own."""


class Call(NamedTuple):
    """One entry of one rank."""

    rank: int
    group: int
    seq: int
    row: int


class Group(Struct, frozen=True):
    """A process group of the job.

    ``is_stated`` is false where the members are those that have entries of it.
    """

    index: int
    name: str
    description: str
    members: tuple[int, ...]
    is_stated: bool
    has_p2p: bool
    is_gloo: bool

    @property
    def label(self) -> str:
        """The group in a sentence: what it is for, else its name."""
        if self.description and self.description not in _SAYS_NOTHING:
            return printable(self.description)
        return f"group {printable(self.name)}" if self.name.isdecimal() else printable(self.name)


class RankCalls(Struct, dict=True):
    """What the dump of one rank says, by groups of the job.

    Attributes:
        rank: The rank.
        dump: Its dump.
        group: Group of the job of each entry.
        is_done: Whether an entry is complete; one of a coalesced group is so as its closing entry.
        enqueued: Largest number that it enqueued, by group; absent where the dump does not say.
        completed: Largest number that is complete on it, by group.
    """

    rank: int
    dump: FlightDump
    group: I64
    is_done: Bools
    enqueued: dict[int, int] = field(default_factory=dict)
    completed: dict[int, int] = field(default_factory=dict)

    @cached_property
    def pending(self) -> tuple[Call, ...]:
        """Its entries that are not complete, the oldest first."""
        rows = np.flatnonzero(~self.is_done & ~self.dump.columns.is_closing)
        return tuple(self.call(int(row)) for row in rows)

    @cached_property
    def rows(self) -> Mapping[int, Mapping[int, tuple[int, ...]]]:
        """Rows of its collectives by group and number; a coalesced group has several of one."""
        columns = self.dump.columns
        found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        kept = ~columns.is_p2p & ~columns.is_closing & (columns.seq >= 0)
        for row in np.flatnonzero(kept).tolist():
            found[int(self.group[row])][int(columns.seq[row])].append(row)
        return {
            group: {seq: tuple(rows) for seq, rows in by_seq.items()}
            for group, by_seq in found.items()
        }

    def call(self, row: int) -> Call:
        """Return an entry."""
        return Call(self.rank, int(self.group[row]), int(self.dump.columns.seq[row]), row)

    def operation(self, row: int) -> str:
        """Return the operation of an entry as recorded: "_all_gather_base"."""
        return self.dump.texts[int(self.dump.columns.operation[row])]

    def frame(self, row: int) -> Frame | None:
        """Return the innermost frame outside of PyTorch that an entry was called from."""
        stack = self.dump.stacks[int(self.dump.columns.stack[row])]
        own = (one for one in stack if "/torch/" not in one.file and one.function)
        return next(own, None)


class FlightJob:
    """The dumps of one job.

    Attributes:
        ranks: What each rank did, by rank.
        groups: Groups of the job.
        world: Number of ranks; at least that many where `is_world_stated` is false.
        missing: Ranks without a dump.
        is_only_active: Completed entries were left out: a missing entry means nothing.
        are_apart: The dumps may be of different moments.
        unused: Notes of dumps that are not used, and why.
    """

    def __init__(self, dumps: Sequence[FlightDump]) -> None:
        self.unused: list[str] = []
        by_rank = self._by_rank(dumps)
        self.groups: list[Group] = []
        local = self._joined_groups(by_rank)
        stated = [max(one.members) for one in self.groups if one.is_stated]
        self.is_world_stated = bool(stated)
        self.world = 1 + max([*stated, *by_rank], default=-1)
        self.missing = tuple(rank for rank in range(self.world) if rank not in by_rank)
        finished = any(one.has_finished_entries for one in by_rank.values())
        past = any((group.last_completed or 0) > 0 for one in by_rank.values()
                   for group in one.groups)  # fmt: skip
        self.is_only_active = not finished and past
        self.ranks = {
            rank: _calls_of(rank, dump, local[rank], self.groups) for rank, dump in by_rank.items()
        }
        self._add_candidates()

    def _by_rank(self, dumps: Sequence[FlightDump]) -> dict[int, FlightDump]:
        """Return one dump for each rank of one job: the newest of a rank, the largest job."""
        jobs: dict[tuple[int, ...], list[FlightDump]] = defaultdict(list)
        for one in dumps:
            if one.rank is None:
                self.unused += [f"not used: {one.path}: {note.message}" for note in one.notes
                                if note.code == "unknown_rank"]  # fmt: skip
                continue
            world = [group.ranks for group in one.groups
                     if group.description == _DEFAULT and group.ranks]  # fmt: skip
            jobs[world[0] if world else ()].append(one)
        unsaid = jobs.pop((), []) if len(jobs) > 1 else []
        if len(jobs) == 2 and () in jobs:
            unsaid = jobs.pop(())
        found = sorted(jobs.values(), key=len)
        largest = [*(found.pop() if found else []), *unsaid]
        if found:
            count = sum(map(len, found))
            self.unused.append(f"{count} dumps are of another job by the ranks of its groups")
        by_rank: dict[int, FlightDump] = {}
        for one in largest:
            # its last calls are missing, and with them whom it waits for
            self.unused += [f"not used: {one.path}: {note.message}" for note in one.notes
                            if note.code == "truncated"]  # fmt: skip
        largest = [one for one in largest if all(note.code != "truncated" for note in one.notes)]
        for one in sorted(largest, key=lambda one: one.modified_ns):
            if one.rank is not None:
                if one.rank in by_rank:
                    older = by_rank[one.rank].path
                    self.unused.append(f"not used: {older}: {one.path} is of the same rank, newer")
                by_rank[one.rank] = one
        return dict(sorted(by_rank.items()))

    def _joined_groups(self, by_rank: Mapping[int, FlightDump]) -> dict[int, list[int]]:
        """Fill `groups`; return for each rank the group of the job of each of its own groups."""
        keys: dict[tuple[str, str, tuple[int, ...] | None], int] = {}
        local: dict[int, list[int]] = {}
        found: list[dict[int, tuple[FlightDump, int]]] = []
        for rank, dump in by_rank.items():
            local[rank] = []
            same_ranks: dict[tuple[int, ...] | None, int] = defaultdict(int)
            for place, group in enumerate(dump.groups):
                name = group.name
                if dump.version.startswith("1.") or not dump.version:
                    # numbers of the process; groups of one set of ranks come in the same order
                    name = str(same_ranks[group.ranks]) if group.ranks else group.name
                    same_ranks[group.ranks] += 1
                index = keys.setdefault((name, group.description, group.ranks), len(keys))
                local[rank].append(index)
                if index == len(found):
                    found.append({})
                found[index][rank] = (dump, place)
        for (name, description, ranks), index in keys.items():
            held = found[index]
            members = ranks or tuple(sorted(held))
            if ranks is None and description == _DEFAULT:
                members = tuple(range(1 + max(by_rank)))
            self.groups.append(
                Group(index, name, description, members, ranks is not None,
                      any(_carries_p2p(*one) for one in held.values()),
                      any("gloo" in dump.backends for dump, _ in held.values()))
            )  # fmt: skip
        return local

    def _add_candidates(self) -> None:
        """Add ranks to groups that are smaller than others of their kind.

        Members that are not stated are those with entries: the others of a kind tell how many a
        group lacks. These are ranks in no group of the kind: without a dump, or without a call.
        Where there are none, ranks above those that left a dump are missing.
        """
        kinds: dict[str, list[Group]] = defaultdict(list)
        for one in self.groups:
            if not one.is_stated and one.description and one.description != _DEFAULT:
                kinds[one.description].append(one)
        for alike in kinds.values():
            size = max(len(one.members) for one in alike)
            lacking = sum(size - len(one.members) for one in alike)
            held = {rank for one in alike for rank in one.members}
            idle = [rank for rank in self.ranks if rank not in held]
            unknown = lacking - len(idle) - len(self.missing)
            if unknown > 0:
                self.missing += tuple(range(self.world, self.world + unknown))
                self.world += unknown
            for one in alike:
                if len(one.members) < size:
                    members = tuple(sorted({*one.members, *idle, *self.missing}))
                    self.groups[one.index] = replace(one, members=members)
                    for rank in idle:
                        if self.ranks[rank].dump.num_overwritten == 0:
                            self.ranks[rank].enqueued.setdefault(one.index, 0)

    @cached_property
    def are_apart(self) -> bool:
        """Whether the dumps may be of different moments: those of a time-out lie within seconds."""
        written = [one.dump.modified_ns for one in self.ranks.values()]
        return bool(written) and max(written) - min(written) > _APART_NS

    def is_p2p(self, call: Call) -> bool:
        """Whether a call is a send or a receive, whose number in the group is stale."""
        return bool(self.ranks[call.rank].dump.columns.is_p2p[call.row])

    def short_text(self, call: Call) -> str:
        """Return a call in a first sentence: "all-reduce 9 of tp", without the ranks of a group."""
        if self.is_p2p(call):
            return self.call_text(call)
        name = operation_words(self.ranks[call.rank].operation(call.row))
        return f"{name} {call.seq:,} of {self.groups[call.group].label}"

    def call_text(self, call: Call) -> str:
        """Return a call in a sentence: "all-reduce 9 of tp (ranks 4-7)", "send to rank 3 of pp"."""
        name = self.ranks[call.rank].operation(call.row)
        if self.is_p2p(call):
            peer = self.peer(call)
            what, to = ("send", "to") if name == "send" else ("receive", "from")
            whom = "" if peer is None else f" {to} rank {peer}"
            return f"{what}{whom} of {self.groups[call.group].label}"
        return f"{operation_words(name)} {call.seq:,} of {self.group_text(call.group)}"

    def group_text(self, index: int) -> str:
        """Return a group in a sentence, with its ranks where others have the same description."""
        group = self.groups[index]
        alike = [one for one in self.groups if one.label == group.label]
        if len(alike) < 2 or len(group.members) > _MOST_LISTED:
            return group.label
        return f"{group.label} ({ranks_text([str(one) for one in group.members])})"

    def peer(self, call: Call) -> int | None:
        """Return the rank on the other side of a send or receive, None where it is not stated."""
        place = int(self.ranks[call.rank].dump.columns.peer[call.row])
        group = self.groups[call.group]
        return group.members[place] if group.is_stated and 0 <= place < len(group.members) else None

    def is_synchronising(self, call: Call) -> bool:
        """Whether no member can finish a call before all have entered it."""
        bare = self.ranks[call.rank].operation(call.row).lower().replace("_", "")
        return any(word in bare for word in SYNCHRONISING)

    def last_call(self, rank: int) -> Call | None:
        """Return the last call that a rank enqueued, None where its dump holds none."""
        calls = self.ranks[rank]
        rows = np.flatnonzero(~calls.dump.columns.is_closing)
        return calls.call(int(rows[-1])) if len(rows) else None

    def members_with_dump(self, index: int) -> Iterator[RankCalls]:
        """Yield the members of a group that left a dump."""
        for rank in self.groups[index].members:
            if rank in self.ranks:
                yield self.ranks[rank]


_APART_NS: Final = 60 * 10**9
_MOST_LISTED: Final = 64


def _carries_p2p(dump: FlightDump, place: int) -> bool:
    columns = dump.columns
    return bool((columns.is_p2p & (columns.group == place)).any())


def _calls_of(
    rank: int, dump: FlightDump, local: Sequence[int], groups: Sequence[Group]
) -> RankCalls:
    columns = dump.columns
    group = np.array(local, np.int64)[columns.group] if len(columns) else np.empty(0, np.int64)
    is_done = columns.state == COMPLETED
    if "gloo" in dump.backends:  # has no states; retired is all that ended, in whatever way
        is_done = is_done | columns.retired
    if _version(dump) >= _FIRST_WITH_BATCHED:
        is_done = _with_closing(dump, is_done)
    calls = RankCalls(rank, dump, group, is_done)
    numbered = ~columns.is_p2p & (columns.seq >= 0)
    for place, index in enumerate(local):
        rows = numbered & (columns.group == place)
        one, said = groups[index], dump.groups[place]
        enqueued = [int(columns.seq[rows].max())] if rows.any() else []
        done = rows & is_done & ~columns.is_closing
        completed = [int(columns.seq[done].max())] if done.any() else []
        if not one.has_p2p and not one.is_gloo:  # counts both kinds, by two threads in gloo
            enqueued += [] if said.last_enqueued is None else [said.last_enqueued]
            completed += [] if said.last_completed is None else [said.last_completed]
        if not enqueued and dump.num_overwritten == 0 and index not in calls.enqueued:
            enqueued = [0]  # the ring is whole, and nothing of the group is in it
        if enqueued:
            calls.enqueued[index] = max(enqueued)
        waiting = columns.seq[rows & ~is_done & ~columns.is_closing]
        if completed:  # calls of a group end in order, whatever its counter says
            before = int(waiting.min()) - 1 if len(waiting) else max(completed)
            calls.completed[index] = min(max(completed), before)
    return calls


def _version(dump: FlightDump) -> tuple[int, int]:
    major, _, minor = dump.version.partition(".")
    return int(major or 0), int(minor or 0)


def _with_closing(dump: FlightDump, is_done: Bools) -> Bools:
    """Return what is done, where operations of a coalesced group end with its closing entry.

    They have no events of their own: they would look pending for ever.
    """
    columns = dump.columns
    if not columns.is_closing.any():
        return is_done
    done = is_done.copy()
    closed: dict[int, bool] = {}  # by group: how the next closing entry ended
    looks_pending = (columns.state == SCHEDULED) & ~columns.retired
    for row in range(len(columns) - 1, -1, -1):
        place = int(columns.group[row])
        if columns.is_closing[row]:
            closed[place] = bool(is_done[row])
        elif not looks_pending[row]:
            closed.pop(place, None)
        elif closed.get(place):
            done[row] = True
    return done
