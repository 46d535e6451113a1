"""Find the order in which the operations of all ranks can be replayed.

A rank waits for the end of a call, a collective for its last member, a call for the one that it
is queued behind. These dependencies do not change with durations, so the order is found once, and
a replay with other durations is one pass along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.collectives.replay.call_links import Links
from ccltui.metrics.collectives.replay.rank_timeline import MARK, POST, WAIT, RankTimeline
from ccltui.parsers.array_types import I8, I32, I64, Bool

PUT_OFF, BEGIN, END = 3, 4, 5
"""Events beside WAIT, POST and MARK: a post delayed until the end of another call, the start of
such a call, and the end of a collective on all members that waited for it."""


class DeadlockError(ValueError):
    """Exception raised when the ranks wait for each other, so that the matches are wrong."""


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of all timelines, concatenated; those of rank r start at ``first[r]``.

    As in `RankTimeline`, but calls are numbered through the job; ``behind`` is -1 for a call that
    is queued behind none. ``steps`` are the ids of the steps of each rank.
    """

    first: I32
    kind: I8
    which: I32
    behind: I32  # by call, as the next two
    delay_ns: I64
    gap_ns: I64
    steps: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, timelines: Sequence[RankTimeline], links: Links) -> Operations:
        """Concatenate timelines; ``links`` number the calls."""
        numbered = list(zip(timelines, links.first, strict=True))
        return cls(
            first=np.cumsum([0, *(len(timeline.kind) for timeline in timelines)], dtype=np.int32),
            kind=np.concatenate([timeline.kind for timeline in timelines]),
            which=np.concatenate([_shifted(ln.which, ln.kind != MARK, n) for ln, n in numbered]),
            behind=np.concatenate([_shifted(ln.behind, ln.behind >= 0, n) for ln, n in numbered]),
            delay_ns=np.concatenate([timeline.delay_ns for timeline in timelines]),
            gap_ns=np.concatenate([timeline.gap_ns for timeline in timelines]),
            steps=tuple(timeline.steps for timeline in timelines),
        )


def _shifted(values: I32 | I64, chosen: Bool, by: int) -> I32:
    return (values + by * chosen).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The events of a replay in order; arrays of one length.

    ``kind`` is WAIT, POST, MARK, PUT_OFF, BEGIN or END. ``operation`` is the place of the event
    among the operations of all timelines, -1 for BEGIN and END, which are on no timeline.
    ``which`` is the call, the step or, for END, the instance.
    """

    operations: Operations
    links: Links
    kind: I8
    rank: I32
    operation: I32
    which: I32


Order = tuple[I8, I32, I32, I32]
"""Kind, rank, operation and which of a `Schedule`."""


def schedule_of(timelines: Sequence[RankTimeline], links: Links) -> Schedule:
    """Return an order in which all operations can be executed.

    Raises:
        DeadlockError: The ranks wait for each other.
    """
    return ordered(Operations.of(timelines, links), links)


def ordered(operations: Operations, links: Links) -> Schedule:
    """Return an order in which operations can be executed; ``links`` number the calls.

    Raises:
        DeadlockError: The ranks wait for each other.
    """
    found = _compiled(operations, links) if available() else _OrderSearch(operations, links).found()
    if found is None:
        raise DeadlockError("the ranks wait for each other")
    return Schedule(operations, links, *found)


def _compiled(operations: Operations, links: Links) -> Order | None:
    """Return the result of `_OrderSearch`, from compiled code."""
    from ccltui.metrics.arrays import _passes  # noqa: PLC0415

    found: Order | None = _passes.Order(
        operations.kind,
        operations.which,
        operations.behind,
        operations.first,
        links.instance,
        links.waits.view(np.uint8),
        links.size,
        links.first_waiting,
        links.waiting,
    ).found()
    return found


class _OrderSearch:
    """Search of the order: each rank runs until it waits for a call that has not ended."""

    def __init__(self, operations: Operations, links: Links) -> None:
        self.first = operations.first.tolist()
        self.ops = list(zip(operations.kind.tolist(), operations.which.tolist(), strict=True))
        self.behind = operations.behind.tolist()
        self.at = self.first[:-1]
        self.ended = [False] * len(links.instance)
        self.left = links.size.tolist()
        self.instance = links.instance.tolist()
        self.waits = links.waits.tolist()
        self.first_waiting = links.first_waiting.tolist()
        self.waiting = links.waiting.tolist()
        self.ranks_waiting: dict[int, list[int]] = {}
        self.calls_waiting: dict[int, list[int]] = {}
        self.emitted: list[tuple[int, int, int, int]] = []

    def found(self) -> Order | None:
        """Return the order; None where ranks wait for each other."""
        runnable = list(range(len(self.at)))
        while runnable:
            runnable += self._advance(runnable.pop())
        if any(at < end for at, end in zip(self.at, self.first[1:], strict=True)):
            return None
        kind, rank, operation, which = np.array(self.emitted, np.int32).reshape(-1, 4).T.copy()
        return kind.astype(np.int8), rank, operation, which

    def _advance(self, rank: int) -> list[int]:
        """Run a rank until it waits, and return the ranks that can continue because of it."""
        ops, emit = self.ops, self.emitted.append
        freed: list[int] = []
        for at in range(self.at[rank], self.first[rank + 1]):
            kind, which = ops[at]
            if kind == WAIT and not self.ended[which]:
                self.ranks_waiting.setdefault(which, []).append(rank)
                self.at[rank] = at
                return freed
            if kind == POST and self.behind[which] >= 0 and not self.ended[self.behind[which]]:
                emit((PUT_OFF, rank, at, which))
                self.calls_waiting.setdefault(self.behind[which], []).append(which)
                continue
            emit((kind, rank, at, which))
            if kind == POST:
                freed += self._begun(which)
        self.at[rank] = self.first[rank + 1]
        return freed

    def _begun(self, call: int) -> list[int]:
        """Start a call and emit the ends that follow; return the ranks that waited for them."""
        freed: list[int] = []
        begun = [call]
        while begun:
            for ended in self._ends_with(begun.pop()):
                self.ended[ended] = True
                freed += self.ranks_waiting.pop(ended, ())
                for other in self.calls_waiting.pop(ended, ()):
                    self.emitted.append((BEGIN, -1, -1, other))
                    begun.append(other)
        return freed

    def _ends_with(self, call: int) -> list[int]:
        """Return the calls whose end follows from the start of this one."""
        number = self.instance[call]
        ended = [] if number >= 0 and self.waits[call] else [call]
        if number < 0:
            return ended
        self.left[number] -= 1
        members = self.waiting[self.first_waiting[number] : self.first_waiting[number + 1]]
        if self.left[number] == 0 and members:
            self.emitted.append((END, -1, -1, number))
            ended += members
        return ended
