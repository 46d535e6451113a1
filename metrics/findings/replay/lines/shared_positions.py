"""Positions of the calls of a program, from all lines that run it.

A call begins at or after the position that it depends on, so the earliest position at which it was
seen to begin is the closest bound; a kernel that waits for a call begins after its end, so the
latest first kernel behind its end is the closest bound of the position that waits. Both bounds are
met wherever the dependency was visible on one line, and hold for those where it was hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.collectives.matching.match import RECV, SEND
from ccltui.metrics.findings.replay.lines.call_table import CallTable, is_receive, is_send
from ccltui.metrics.findings.replay.lines.stage_order import BACKWARD, FORWARD
from ccltui.metrics.findings.replay.lines.step_lines import QUEUED_NS
from ccltui.parsers.array_types import I8, I32, I64, Bool


class SilentStage(NamedTuple):
    """The transfers of a first or last stage.

    Attributes:
        cuts: positions of the sends, ascending: ends of the passes of the one direction.
        receives: number of receives of the other direction.
        size: number of kernels of the line.
        is_first: whether it is the first stage, where backward passes are silent.
        seen: positions of receives that were waited for, by their number.
    """

    cuts: Sequence[int]
    receives: int
    size: int
    is_first: bool
    seen: dict[int, int]


def kernels_per_pass(stage: SilentStage) -> tuple[int, int] | None:
    """Return the number of kernels of a forward and a backward pass, None where it is not told."""
    sizes = np.diff(stage.cuts)
    if not len(sizes):
        return None
    least = int(sizes.min())
    if stage.is_first:
        longer = [int(one) - least for one in sizes if one > least]
        steps = [
            b - a
            for k, a in stage.seen.items()
            if (b := stage.seen.get(k + 1)) is not None and a >= stage.cuts[-1]
        ]
        other = [*longer, *(one for one in steps if one > 0)]
        return (least, Counter(other).most_common(1)[0][0]) if other else None
    usual = Counter(sizes.tolist()).most_common(1)[0][0]
    rest = stage.cuts[0] - usual  # forward passes before the first backward one, but for GPipe one
    each = rest // stage.receives
    return (each, usual) if each > 0 and rest >= stage.receives and rest > usual else None


def silent_starts(stage: SilentStage, ratio: float | None) -> I64 | None:
    """Return the position at which each silent pass begins, None where it is not told.

    ``ratio`` is kernels of a backward pass over those of a forward pass on the other stages.
    """
    found = _backward(stage, ratio) if stage.is_first else _forward(stage)
    if found is None or len(found) != stage.receives:
        return None
    starts = np.array(found, np.int64)
    agrees = all(starts[number] == place for number, place in stage.seen.items())
    return starts if agrees and (starts < stage.size).all() else None


def _forward(stage: SilentStage) -> list[int] | None:
    """The last stage: forward passes before the backward pass that a send ends."""
    sizes = np.diff(stage.cuts)
    told = kernels_per_pass(stage)
    if len(stage.cuts) == stage.receives and (told is None or _is_even(stage)):
        return [0, *stage.cuts[:-1]]
    if told is None or not len(sizes):
        return None
    each, usual = told
    begin = stage.cuts[0] - usual - each * stage.receives
    return [begin + each * number for number in range(stage.receives)] if begin >= 0 else None


def _is_even(stage: SilentStage) -> bool:
    """Whether as many kernels lie before the first send as between the others: one pass each."""
    usual = Counter(np.diff(stage.cuts).tolist()).most_common(1)[0][0]
    return stage.cuts[0] < 2 * usual


def _backward(stage: SilentStage, ratio: float | None) -> list[int] | None:
    """The first stage: backward passes before forward ones that a send ends, the rest behind."""
    sizes = np.diff(stage.cuts)
    if not len(sizes):
        return None
    least = int(sizes.min())
    told = kernels_per_pass(stage)
    each = told[1] if told else round(least * ratio) if ratio else 0
    if each < 1:
        return None
    starts = [cut for cut, size in zip(stage.cuts[:-1], sizes, strict=True) if size > least]
    left = stage.receives - len(starts)
    return [*starts, *(stage.cuts[-1] + each * number for number in range(left))]


WAITED_SHARE: Final = 0.05
"""Share of the lines in which the device waits for a call, from which its program waits for it: in
single lines a call may end in an idle time that has another reason."""
SENDS_WAITED_SHARE: Final = 0.5
"""The same for sends, which end when the other side has received."""


OUTLIERS: Final = 0.1
"""Share of the lines that may begin a call without a launch record earlier than it is posted."""


_Kind = TypeVar("_Kind", bound=np.generic)


class Program(Struct, frozen=True):
    """Lines that make the same calls on one stage.

    ``lines`` are their numbers; ``same`` those with the usual number of kernels, ``size``, on which
    positions are shared; ``stage`` is -1 without a pipeline.
    """

    lines: I64
    same: Bool
    size: int
    stage: int


class Positions(Struct, frozen=True):
    """``posted`` and ``resumed`` of each call; ``resumed`` is -1 where nothing waits for it.

    ``hidden`` marks waits that were visible on no line.
    """

    programs: tuple[Program, ...]
    posted: I32
    resumed: I32
    hidden: Bool


def positions(table: CallTable, sizes: I64, stage: I64) -> Positions:
    """Return the programs of a job and the positions of all calls.

    Args:
        table: the calls.
        sizes: number of kernels of each line.
        stage: stage of each rank.
    """
    programs = _programs(table, sizes, stage)
    last_stage = int(stage.max(initial=-1))
    silent: list[tuple[I64, I64, SilentStage]] = []
    ratios: list[float] = []
    receives, sends = is_receive(table), is_send(table)
    posted, resumed = table.posted.copy(), table.resumed.copy()
    waits = table.waited | receives
    hidden = np.zeros(len(posted), np.bool_)
    queued = _queued(table)
    for program in programs:
        lines = program.lines[program.same]
        first = table.first_call[lines]
        count = int(table.first_call[lines[0] + 1] - first[0])
        at = first[:, np.newaxis] + np.arange(count)
        share = in_lines(table.waited, at).mean(axis=0)
        is_recv, is_sent = receives[at[0]], sends[at[0]]
        share = np.where(_never_hidden(table, at), 1.0, share)
        awaited = is_recv | (share > np.where(is_sent, SENDS_WAITED_SHARE, WAITED_SHARE))
        early = _earliest(table, at, queued, is_sent)
        late = _latest(table, at)
        unseen = is_recv & (share < SENDS_WAITED_SHARE)
        late = np.where(
            unseen, _structural(late, early, is_sent, is_recv, table.direction[at[0]]), late
        )
        posted[at], resumed[at] = early, late
        if program.stage in (0, last_stage) and last_stage > 0:
            towards = BACKWARD if program.stage == 0 else FORWARD
            mine = np.flatnonzero(is_recv & (table.direction[at[0]] == towards))
            seen = {n: int(late[i]) for n, i in enumerate(mine) if share[i] >= SENDS_WAITED_SHARE}
            cuts = np.sort(early[is_sent & (table.direction[at[0]] == 3 - towards)]).tolist()
            if cuts and len(mine):
                is_first = program.stage == 0
                one = SilentStage(cuts, len(mine), program.size, is_first, seen)
                silent.append((at[:, mine], unseen[mine], one))
                told = kernels_per_pass(one)
                ratios += [told[1] / told[0]] if told and told[0] else []
        elif is_sent.any():
            ratios += _pass_ratio(early, is_sent, table.direction[at[0]])
        # Ranks of a ring pass data on in one program: what one waits for all do.
        is_passed = np.isin(table.kind[at[0]], (SEND, RECV)) & (table.direction[at[0]] == 0)
        waits[at] = awaited
        hidden[at] = awaited & (share < SENDS_WAITED_SHARE) & ~is_passed
    for at, unseen, one in silent:
        starts = silent_starts(one, float(median_along(ratios)) if ratios else None)
        if starts is not None:
            resumed[at[:, unseen]] = starts[unseen]
    return Positions(programs, posted, np.where(waits, resumed, -1), hidden)


def in_lines(values: npt.NDArray[_Kind], at: I64) -> npt.NDArray[_Kind]:
    """Return values at places [lines, calls], those of a line in a row; a view where lines are too.

    Mostly all lines run one program: a copy of a column of all calls takes tens of MB.
    """
    count = at.shape[1]
    if at.size and (np.diff(at[:, 0]) == count).all():
        begin = int(at[0, 0])
        return values[begin : begin + at.size].reshape(at.shape)
    return values[at]


def _latest(table: CallTable, at: I64) -> I32:
    """Latest first kernel behind each call; where most lines saw what waits for it, that of most.

    Without launch records an error of the times puts single lines behind the kernel that waits.
    """
    latest: I32 = in_lines(table.resumed, at).max(axis=0)
    unlaunched = ~in_lines(table.launched, at).any(axis=0)
    if not unlaunched.any():
        return latest
    agreed = _most_common(table.resumed[at], table.waited[at])
    seen = table.waited[at].mean(axis=0) >= SENDS_WAITED_SHARE
    return np.where(seen & unlaunched, agreed, latest)


def _most_common(places: I32, counted: Bool) -> I32:
    """Most common place of each call on the lines that count, -1 where none does.

    ``places`` and ``counted`` are [lines, calls].
    """
    shown = np.sort(np.where(counted, places, -1), axis=0)
    lines, calls = shown.shape
    begins = np.ones((lines, calls), np.bool_)
    begins[1:] = shown[1:] != shown[:-1]
    number = np.arange(lines)[:, np.newaxis]
    first = np.maximum.accumulate(np.where(begins, number, 0), axis=0)
    length = np.where(shown >= 0, number - first + 1, 0)
    found: I32 = shown[length.argmax(axis=0), np.arange(calls)]
    return found


def _never_hidden(table: CallTable, at: I64) -> Bool:
    """Calls of a kind during which no kernel ever ran, at any place on any line.

    What follows waits for them, also where a pause of the host behind them hides that.
    """
    _, kind = np.unique(table.token[at[0]], return_inverse=True)
    hidden = (in_lines(table.posted, at) < in_lines(table.resumed, at)).any(axis=0)
    hidden |= table.kind[at[0]] == SEND
    return np.asarray(np.bincount(kind.reshape(-1), weights=hidden)[kind.reshape(-1)] == 0)


def _earliest(table: CallTable, at: I64, queued: Bool, is_sent: Bool) -> I32:
    """Earliest position of each call; of those that were queued on every line a closer bound.

    Of calls without a launch record single lines are left out: an error of the times puts them
    before the kernel that feeds them.

    A call is not posted before the one that kept it. A send is posted at the end of its pass, which
    has as many kernels as the others of its direction.
    """
    early: I32 = in_lines(table.posted, at).min(axis=0)
    unlaunched = ~in_lines(table.launched, at).any(axis=0)
    if unlaunched.any():
        fewest = np.sort(table.posted[at], axis=0)[int(OUTLIERS * len(at))]
        early = np.where(unlaunched, fewest, early)
    kept = in_lines(queued, at).all(axis=0)
    kept_sends = np.flatnonzero(kept & is_sent)
    for place in np.flatnonzero(kept & ~is_sent).tolist():
        before = int(table.behind[at[0, place]] - at[0, 0])
        if 0 <= before < len(early):
            early[place] = min(early[place], early[before])
    direction = table.direction[at[0]]
    for towards in (FORWARD, BACKWARD):
        _place_sends(early, is_sent, direction == towards, kept_sends)
    return early


def _place_sends(early: I32, is_sent: Bool, mine: Bool, kept: I64) -> None:
    """Set the positions of the queued sends of one direction to the ends of their passes."""
    sends = np.flatnonzero(is_sent & mine)
    free = sends[~np.isin(sends, kept)]
    if not len(free) or len(free) == len(sends):
        return
    known = np.concatenate(([0], np.sort(early[is_sent & ~np.isin(np.arange(len(early)), kept)])))
    before = known[np.searchsorted(known, early[free], side="left") - 1]
    lengths, counts = np.unique(early[free] - before, return_counts=True)
    length = int(lengths[counts.argmax()])
    for number, place in enumerate(sends.tolist()):
        if number == 0 or place not in kept:
            continue
        low = int(early[sends[number - 1]])
        between = known[(known > low) & (known <= early[place] - length)]
        start = int(between[0]) if len(between) and between[0] < low + length else low
        early[place] = min(int(early[place]), start + length)


def _queued(table: CallTable) -> Bool:
    """Calls without a launch record of their own position, kept by the one before them."""
    before = table.behind
    ended = (table.start_ns + table.dur_ns)[before]
    gap = table.start_ns - ended
    return np.asarray((before >= 0) & ~table.launched & (np.abs(gap) <= QUEUED_NS))


def _structural(late: I32, early: I32, is_sent: Bool, is_recv: Bool, direction: I8) -> I64:
    """Position of the pass that each receive is for, where nothing was seen to wait for it.

    The k-th receive of a direction is for the pass that the k-th send of this direction ends, which
    begins where the pass before it ended. On the first and the last stage one direction has no
    sends: there it is the next end of a pass after the receive.
    """
    cuts = np.sort(early[is_sent])
    place = np.searchsorted(cuts, late)
    found = np.where(place < len(cuts), np.append(cuts, 0)[place], late)
    for towards in (FORWARD, BACKWARD):
        sent = np.flatnonzero(is_sent & (direction == towards))
        received = np.flatnonzero(is_recv & (direction == towards))
        if len(sent) == len(received):
            before = np.searchsorted(cuts, early[sent], side="left") - 1
            found[received] = np.where(before >= 0, cuts[np.maximum(before, 0)], 0)
    return found


def _pass_ratio(early: I32, is_sent: Bool, direction: I8) -> list[float]:
    """Kernels of a backward pass over those of a forward one on a stage that sends both."""
    sends = np.flatnonzero(is_sent)
    sends = sends[np.argsort(early[sends], kind="stable")]
    sizes, towards = np.diff(early[sends]), direction[sends][1:]
    forward, backward = sizes[towards == FORWARD], sizes[towards == BACKWARD]
    if not len(forward) or not len(backward) or median_along(forward) <= 0:
        return []
    return [float(median_along(backward) / median_along(forward))]


def _programs(table: CallTable, sizes: I64, stage: I64) -> tuple[Program, ...]:
    members: dict[tuple[int, bytes], list[int]] = {}
    edges = table.first_call.tolist()
    for line in range(table.num_lines):
        tokens = table.token[edges[line] : edges[line + 1]].tobytes()
        members.setdefault((int(stage[table.rank[line]]), tokens), []).append(line)
    programs = []
    for (place, _), lines in members.items():
        mine = np.array(lines, np.int64)
        values, counts = np.unique(sizes[mine], return_counts=True)
        size = int(values[counts.argmax()])
        programs.append(Program(mine, sizes[mine] == size, size, place))
    return tuple(programs)
