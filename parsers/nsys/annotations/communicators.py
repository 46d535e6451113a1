"""Collect the communicators of a file and the NCCL calls of its ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ccltui.parsers.columns import MISSING, CollectiveArgs, ProcessGroup
from ccltui.parsers.nsys.annotations.capture_session import Identity, Part, part_of
from ccltui.parsers.nsys.annotations.event_names import FileNames
from ccltui.parsers.nsys.annotations.nccl_ranges import (
    CALLS,
    UNTYPED,
    ArgsTable,
    Call,
    Member,
    call_of,
    member_of,
)
from ccltui.parsers.nsys.annotations.nvtx import Ranges


@dataclass(slots=True)
class Communicators:
    """Communicators of a file, and the calls of its ranges by numbers of name and payload."""

    parts: Sequence[Part]
    members: list[Member]
    calls: dict[tuple[int, int], Call]
    num_ranks: dict[int, int]
    names: FileNames

    @classmethod
    def of(cls, ranges: Ranges, names: FileNames, parts: Sequence[Part]) -> Communicators:
        """Read members and calls from the payloads of NCCL's ranges."""
        is_nccl = names.is_nccl()
        members, calls = [], {}
        for name, payload in ranges.stated:
            if is_nccl[name]:
                stated = names.payloads[payload]
                member = member_of(ranges.rows.names[name][0], stated)
                members += [member] if member is not None else []
                call = call_of(names.ranges[name].text, stated)
                calls.update({(name, payload): call} if call is not None else {})
        sizes = {member.communicator: member.num_ranks for member in members}
        return cls(parts, members, calls, sizes, names)

    def call(self, key: tuple[int, int]) -> Call | None:
        """Return the call of a range with this name and payload, None if it is no call."""
        return self.calls.get(key) or call_of(self.names.ranges[key[0]].text, {})

    def texts(self) -> tuple[str, ...]:
        """Return every text that arguments may refer to."""
        return (*CALLS.values(), UNTYPED) if self.names.is_nccl().any() else ()

    def all(self) -> tuple[int, ...]:
        """Return the communicators of the file, first those whose creation was recorded."""
        called = (call.communicator for call in self.calls.values() if call.communicator)
        return tuple(dict.fromkeys([*(member.communicator for member in self.members), *called]))

    def groups(self, known: Mapping[Part, Identity]) -> tuple[ProcessGroup, ...]:
        """Return the communicators with the global ranks of their members."""
        return tuple(
            ProcessGroup(
                name=f"{communicator:#x}",
                description="world" if self._is_world(communicator, known) else "",
                ranks=self._ranks_of(communicator, known),
                size=self.num_ranks.get(communicator, MISSING),
                backend="nccl",
            )
            for communicator in self.all()
        )

    def finish(self, table: ArgsTable, known: Mapping[Part, Identity]) -> CollectiveArgs:
        """Return the columns of a table of arguments."""
        numbers = {communicator: index for index, communicator in enumerate(self.all())}
        ranks = {communicator: self._ranks_of(communicator, known) for communicator in numbers}
        return table.finish(self.names.ids, numbers, ranks)

    def _is_world(self, communicator: int, known: Mapping[Part, Identity]) -> bool:
        """Return whether every rank of the job is a member: its size is the world size."""
        size = self.num_ranks.get(communicator, MISSING)
        return {size} == {identity.world_size for identity in known.values()}

    def _ranks_of(self, communicator: int, known: Mapping[Part, Identity]) -> tuple[int, ...]:
        """Return global ranks in order of the communicator's ranks, () unless all are known."""
        size = self.num_ranks.get(communicator, MISSING)
        if self._is_world(communicator, known):
            return tuple(range(size))
        of_rank: dict[int, int] = {}
        for member in self.members:
            part = part_of(member, self.parts)
            rank = None if part is None else known[part].rank
            if member.communicator == communicator and rank is not None:
                of_rank[member.rank] = rank
        return tuple(of_rank[rank] for rank in range(size)) if len(of_rank) == size else ()
