"""The job replayed from its dependencies: when would steps end if some work took another time.

Every rank advances along its line; a collective ends on all members as long after the last of
them began it as it did. Nothing is taken from the clock but how the lines lie to each other at
the start, and how far apart the members of one collective end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics.collectives.clocks import ClockModel
from metrics.collectives.main_line import MARK, POST, WAIT, MainLine
from metrics.collectives.match import MEDIUM, Matches, MatchInput
from metrics.collectives.p2p import Pairs
from parsers.columns import I64, MISSING

F64 = npt.NDArray[np.float64]

APART_NS = 20_000
"""A member that ended this long before the last one began did not wait for it."""


class StuckError(ValueError):
    """The lines of the ranks wait for each other: what was matched cannot be."""


@dataclass(frozen=True, slots=True)
class Links:
    """The calls of all ranks, numbered through: int64 arrays of one length.

    ``first`` is the number of each rank's first call. ``instance`` is what each call is a part
    of, -1 for nothing. A call that ``waits`` ends ``after_ns`` after the last start of its
    instance; any other after its own.
    """

    first: tuple[int, ...]
    instance: I64
    size: I64  # of each instance
    after_ns: I64
    waits: npt.NDArray[np.bool_]


def link(inputs: Sequence[MatchInput], matches: Matches, pairs: Pairs, clocks: ClockModel) -> Links:
    """Number the calls of ``inputs`` and link those that are one collective or transfer."""
    first = np.concatenate(([0], np.cumsum([len(item.calls) for item in inputs])))
    start = np.concatenate([clocks.corrected(i.label, i.calls.start_ns) for i in inputs])
    end = np.concatenate([clocks.corrected(i.label, i.calls.end_ns) for i in inputs])
    own = np.concatenate([item.calls.dur_ns for item in inputs])
    instance = np.full(len(start), MISSING, np.int64)
    index = {item.label: number for number, item in enumerate(inputs)}
    sizes: list[I64] = []
    count = 0
    for match in matches.groups:
        rows = match.rows[match.usable & (match.confidence >= MEDIUM)]
        for member, label in enumerate(match.labels):
            instance[first[index[label]] + rows[:, member]] = count + np.arange(len(rows))
        sizes.append(np.full(len(rows), len(match.labels)))
        count += len(rows)
    for side, row in ((pairs.sender, pairs.send_row), (pairs.receiver, pairs.recv_row)):
        instance[first[side] + row] = count + np.arange(len(pairs))
    sizes.append(np.full(len(pairs), 2))
    size = np.concatenate(sizes).astype(np.int64)
    part = np.flatnonzero(instance >= 0)
    latest = np.full(len(size), np.iinfo(np.int64).min)
    np.maximum.at(latest, instance[part], start[part])
    after = own.copy()
    after[part] = end[part] - latest[instance[part]]
    waits = np.zeros(len(start), np.bool_)
    waits[part] = after[part] > -APART_NS
    after = np.where(waits, np.maximum(after, 0), own)
    return Links(tuple(first[:-1].tolist()), instance, size, after, waits)


def replay(
    lines: Sequence[MainLine],
    links: Links,
    begin_ns: Sequence[int],
    progress: Sequence[F64],
) -> list[Mapping[int, float]]:
    """When each rank's work of each step ends, in ns, by step id; by rank.

    ``begin_ns`` is when each line begins on one clock that counts from near 0, so that floats
    are exact; ``progress`` the progress at each of its operations: that of the line, or a changed
    one. Raises StuckError.
    """
    return _Run(lines, links, begin_ns, progress).finish()


class _Run:
    """One replay: ranks run until they wait for a call whose end is not known yet."""

    def __init__(
        self,
        lines: Sequence[MainLine],
        links: Links,
        begin_ns: Sequence[int],
        progress: Sequence[F64],
    ) -> None:
        total = len(links.instance)
        self.links = links
        self.ops = [
            _listed(line, first, way)
            for line, first, way in zip(lines, links.first, progress, strict=True)
        ]
        self.steps = [line.steps for line in lines]
        self.now = [float(begin) for begin in begin_ns]
        self.at = [0] * len(lines)
        self.reached = [0.0] * len(lines)
        self.marks: list[dict[int, float]] = [{} for _ in lines]
        self.end: list[float | None] = [None] * total
        self.left = links.size.tolist()
        self.latest = [float("-inf")] * len(links.size)
        self.members: list[list[int]] = [[] for _ in links.size]
        self.instance = links.instance.tolist()
        self.after = links.after_ns.tolist()
        self.waits = links.waits.tolist()
        self.started: dict[int, float] = {}
        self.ranks_waiting: dict[int, list[int]] = {}
        self.calls_waiting: dict[int, list[tuple[int, float, float]]] = {}

    def finish(self) -> list[Mapping[int, float]]:
        runnable = list(range(len(self.ops)))
        while runnable:
            rank = runnable.pop()
            runnable += self._advance(rank)
        if any(at < len(ops) for at, ops in zip(self.at, self.ops, strict=True)):
            raise StuckError("the ranks wait for each other")
        return list(self.marks)

    def _advance(self, rank: int) -> list[int]:
        """Run a rank as far as it goes; the ranks that this lets run again."""
        ops = self.ops[rank]
        freed: list[int] = []
        while self.at[rank] < len(ops):
            kind, which, progress, delay, behind, gap = ops[self.at[rank]]
            self.now[rank] += progress - self.reached[rank]
            self.reached[rank] = progress
            if kind == WAIT:
                end = self.end[which]
                if end is None:
                    self.ranks_waiting.setdefault(which, []).append(rank)
                    return freed
                self.now[rank] = max(self.now[rank], end)
            elif kind == POST:
                freed += self._post(which, self.now[rank] + delay, behind, gap)
            else:
                self.marks[rank][self.steps[rank][which]] = self.now[rank]
            self.at[rank] += 1
        return freed

    def _post(self, call: int, ready: float, behind: int, gap: float) -> list[int]:
        if behind < 0:
            return self._start(call, ready)
        end = self.end[behind]
        if end is None:
            self.calls_waiting.setdefault(behind, []).append((call, ready, gap))
            return []
        return self._start(call, max(ready, end + gap))

    def _start(self, call: int, time: float) -> list[int]:
        """Begin a call; ends that follow from it, and the ranks that waited for them."""
        freed: list[int] = []
        begun = [(call, time)]
        while begun:
            call, time = begun.pop()
            for ended in self._entered(call, time):
                end = self.end[ended]
                assert end is not None
                freed += self.ranks_waiting.pop(ended, ())
                begun += [
                    (other, max(ready, end + gap))
                    for other, ready, gap in self.calls_waiting.pop(ended, ())
                ]
        return freed

    def _entered(self, call: int, time: float) -> list[int]:
        """Calls whose end is known now that this one has begun."""
        number = self.instance[call]
        ended = []
        if number < 0 or not self.waits[call]:
            self.end[call] = time + self.after[call]
            ended.append(call)
        if number < 0:
            return ended
        self.latest[number] = max(self.latest[number], time)
        if self.waits[call]:
            self.members[number].append(call)
        self.left[number] -= 1
        if self.left[number] == 0:
            for member in self.members[number]:
                self.end[member] = self.latest[number] + self.after[member]
                ended.append(member)
        return ended


def _listed(
    line: MainLine, first: int, progress: F64
) -> list[tuple[int, int, float, float, int, float]]:
    """Operations as tuples, calls numbered through the job."""
    which = np.where(line.kind == MARK, line.which, line.which + first)
    behind = np.where(line.behind >= 0, line.behind + first, MISSING)
    return list(
        zip(
            line.kind.tolist(),
            which.tolist(),
            progress.tolist(),
            line.delay_ns.tolist(),
            behind.tolist(),
            line.gap_ns.tolist(),
            strict=True,
        )
    )
