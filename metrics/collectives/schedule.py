"""In which order the work of all ranks can be replayed: whatever it takes, that order holds.

A rank waits for the end of a call, a collective for its last member, a call for the one that it
is queued behind: who waits for whom does not depend on times. So the order is found once, and a
replay with other times is one pass along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics.collectives.links import Links
from metrics.collectives.main_line import MARK, POST, WAIT, MainLine
from parsers.columns import I64

PUT_OFF, BEGIN, END = 3, 4, 5
"""Beside WAIT, POST and MARK: a post that waits for another call's end, the beginning of such a
call, and the end of a collective on all members that waited for it."""


class StuckError(ValueError):
    """The lines of the ranks wait for each other: what was matched cannot be."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens, in order: arrays of one length (int64 but for ``members``).

    ``kind`` is WAIT, POST, MARK, PUT_OFF, BEGIN or END. ``operation`` is the place of it among
    the operations of all lines end to end, -1 for BEGIN and END, which are on no line. ``which``
    is the call, the step or, for END, the instance.
    """

    lines: tuple[MainLine, ...]
    links: Links
    kind: I64
    rank: I64
    operation: I64
    which: I64
    members: dict[int, tuple[int, ...]]  # by instance: calls that end with it


def schedule_of(lines: Sequence[MainLine], links: Links) -> Schedule:
    """The order in which everything can happen. Raises StuckError."""
    return _Order(lines, links).found()


class _Order:
    """Ranks run until they wait for a call whose end does not follow yet."""

    def __init__(self, lines: Sequence[MainLine], links: Links) -> None:
        self.lines, self.links = tuple(lines), links
        self.ops = [_listed(line, first) for line, first in zip(lines, links.first, strict=True)]
        self.offset = np.concatenate(([0], np.cumsum([len(ops) for ops in self.ops]))).tolist()
        self.at = [0] * len(lines)
        self.ended = [False] * len(links.instance)
        self.left = links.size.tolist()
        self.instance = links.instance.tolist()
        self.waits = links.waits.tolist()
        self.members: dict[int, list[int]] = {}
        self.ranks_waiting: dict[int, list[int]] = {}
        self.calls_waiting: dict[int, list[int]] = {}
        self.told: list[tuple[int, int, int, int]] = []

    def found(self) -> Schedule:
        runnable = list(range(len(self.ops)))
        while runnable:
            runnable += self._advance(runnable.pop())
        if any(at < len(ops) for at, ops in zip(self.at, self.ops, strict=True)):
            raise StuckError("the ranks wait for each other")
        kind, rank, operation, which = (
            np.array(self.told, np.int64).reshape(-1, 4).T if self.told else np.empty((4, 0), int)
        )
        members = {number: tuple(calls) for number, calls in self.members.items()}
        return Schedule(self.lines, self.links, kind, rank, operation, which, members)

    def _advance(self, rank: int) -> list[int]:
        """Run a rank as far as it goes; the ranks that this lets run again."""
        ops, offset, tell = self.ops[rank], self.offset[rank], self.told.append
        freed: list[int] = []
        for at in range(self.at[rank], len(ops)):
            kind, which, behind = ops[at]
            if kind == WAIT and not self.ended[which]:
                self.ranks_waiting.setdefault(which, []).append(rank)
                self.at[rank] = at
                return freed
            if kind == POST and behind >= 0 and not self.ended[behind]:
                tell((PUT_OFF, rank, offset + at, which))
                self.calls_waiting.setdefault(behind, []).append(which)
                continue
            tell((kind, rank, offset + at, which))
            if kind == POST:
                freed += self._begun(which)
        self.at[rank] = len(ops)
        return freed

    def _begun(self, call: int) -> list[int]:
        """A call has begun: ends that follow from it, and the ranks that waited for them."""
        freed: list[int] = []
        begun = [call]
        while begun:
            for ended in self._ends_with(begun.pop()):
                self.ended[ended] = True
                freed += self.ranks_waiting.pop(ended, ())
                for other in self.calls_waiting.pop(ended, ()):
                    self.told.append((BEGIN, -1, -1, other))
                    begun.append(other)
        return freed

    def _ends_with(self, call: int) -> list[int]:
        """Calls whose end follows from the beginning of this one."""
        number = self.instance[call]
        if number < 0:
            return [call]
        ended = []
        if self.waits[call]:
            self.members.setdefault(number, []).append(call)
        else:
            ended.append(call)
        self.left[number] -= 1
        if self.left[number] == 0 and number in self.members:
            self.told.append((END, -1, -1, number))
            ended += self.members[number]
        return ended


def _listed(line: MainLine, first: int) -> list[tuple[int, int, int]]:
    """Operations as tuples, calls numbered through the job."""
    which = np.where(line.kind == MARK, line.which, line.which + first)
    behind = np.where(line.behind >= 0, line.behind + first, -1)
    return list(zip(line.kind.tolist(), which.tolist(), behind.tolist(), strict=True))
