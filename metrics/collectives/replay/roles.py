"""Ranks that run the same program, and how long each of them takes from call to call.

What lies between two calls of the program is compared between ranks that issue the same calls in
a step. A rank without its excess takes as long as the median of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.collectives.replay.rank_timeline import MARK, POST, MainLine
from ccltui.metrics.model.calls import Calls
from ccltui.parsers.array_types import F64, I64


@dataclass(frozen=True, slots=True)
class Stretch:
    """One step of the ranks that run one program: the time between its calls, waits taken out.

    ``length_ns`` is float64 [rank, n]: from the end of the step before (the first moment of the
    line, in the first) to the first call, between calls, and to the end of the step.
    ``operations`` are the places of those ends among the operations of each rank, int64 [rank, n].
    """

    step: int
    ranks: tuple[int, ...]
    length_ns: F64
    operations: I64
    is_first: bool = False  # how long before its first call its ranks began is not known

    def without(self, chosen: frozenset[int]) -> F64:
        """The lengths with each chosen rank as long as the median of the others, [rank, n].

        Of an even number of others the shorter of the two in the middle; of one other, that one.
        """
        changed = self.length_ns.copy()
        for place, rank in enumerate(self.ranks):
            if rank in chosen and len(self.ranks) > 1:
                others = np.sort(np.delete(self.length_ns, place, axis=0), axis=0)
                changed[place] = others[(len(others) - 1) // 2]
        return self._from_known(changed)

    def even(self) -> F64:
        """The lengths with every rank as long as the median of all, the shorter middle one."""
        ordered = np.sort(self.length_ns, axis=0)
        middle = ordered[(len(ordered) - 1) // 2]
        return self._from_known(np.tile(middle, (len(ordered), 1)))

    def _from_known(self, changed: F64) -> F64:
        if self.is_first:
            changed[:, 0] = self.length_ns[:, 0]
        return changed


def stretches(
    lines: Sequence[MainLine], calls: Sequence[Calls], sorts: Sequence[I64]
) -> list[Stretch]:
    """Every step of every program that two ranks or more run; ``sorts`` number what calls serve."""
    found: list[Stretch] = []
    steps = sorted({step for line in lines for step in line.steps})
    anchors = [_anchors(line, one.step) for line, one in zip(lines, calls, strict=True)]
    for step in steps:
        programs: dict[bytes, list[int]] = {}
        for rank, known in enumerate(anchors):
            if step in known:
                part = known[step].calls
                program = np.stack((calls[rank].kind[part], sorts[rank][part]))
                programs.setdefault(program.tobytes(), []).append(rank)
        for ranks in programs.values():
            if len(ranks) > 1:
                here = [anchors[rank][step] for rank in ranks]
                found.append(
                    Stretch(
                        step,
                        tuple(ranks),
                        np.stack([one.length_ns for one in here]),
                        np.stack([one.operations for one in here]),
                        is_first=step == steps[0],
                    )
                )
    return found


def stretched(line: MainLine, operations: Sequence[I64], lengths: Sequence[F64]) -> F64:
    """Progress of a line whose stretches (by their operations) have other lengths, float64.

    What lies between two ends of a stretch is moved in proportion.
    """
    was = line.progress_ns.astype(np.float64)
    if not operations:
        return was
    places = np.concatenate(operations)
    order = np.argsort(places, kind="stable")
    ends = places[order]
    longer = np.concatenate(lengths)[order]
    starts = np.concatenate(([0.0], was[ends[:-1]]))
    old = was[ends] - starts
    moved = np.cumsum(longer - old)
    shift_before = np.concatenate(([0.0], moved))
    here = np.bincount(ends, minlength=len(was))
    after = np.cumsum(here) - here  # the stretch that each lies in: how many end before it
    inside = np.minimum(after, len(ends) - 1)
    share = np.where(
        old[inside] > 0, (was - starts[inside]) / np.where(old > 0, old, 1)[inside], 1.0
    )
    share = np.where(after < len(ends), np.clip(share, 0, 1), 1.0)
    change = shift_before[inside] + share * (moved[inside] - shift_before[inside])
    return np.asarray(np.maximum.accumulate(was + change))


@dataclass(frozen=True, slots=True)
class _Anchors:
    """The calls of one rank in one step, in the order of its program, and the ends of stretches."""

    calls: I64
    operations: I64
    length_ns: F64


def _anchors(line: MainLine, step_of_call: I64) -> dict[int, _Anchors]:
    post = np.flatnonzero(line.kind == POST)
    place_of = np.empty(len(line.posted_ns), np.int64)
    place_of[line.which[post]] = post
    found: dict[int, _Anchors] = {}
    begin = 0
    for place in np.flatnonzero(line.kind == MARK).tolist():
        step = line.steps[int(line.which[place])]
        mine = np.flatnonzero(step_of_call == step)
        mine = mine[np.argsort(line.launched_ns[mine], kind="stable")]
        mine = mine[place_of[mine] < place]  # posted before the last work of the step ended
        operations = (
            np.append(np.maximum.accumulate(place_of[mine]), place)
            if len(mine)
            else np.array([place])
        )
        ends = line.progress_ns[operations].astype(np.float64)
        length = np.diff(np.concatenate(([begin], ends)))
        found[step] = _Anchors(mine, operations, length)
        begin = int(line.progress_ns[place])
    return found
