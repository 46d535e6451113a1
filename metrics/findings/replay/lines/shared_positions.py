"""Positions of the calls of a program, from all lines that run it, and its operations in order.

A call begins at or after the position that it depends on, so the earliest position at which it was
seen to begin is the closest bound; a kernel that waits for a call begins after its end, so the
latest first kernel behind its end is the closest bound of the position that waits. Both bounds are
met wherever the dependency was visible on one line, and hold for those where it was hidden.

At one position come the end of a unit, then waits in the order of time with the posts that on every
line came after them, and last waits that few lines saw, and those of single lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import median_along
from ccltui.metrics.collectives.matching.match import RECV, SEND
from ccltui.metrics.findings.replay.lines.call_table import CallTable, Whole, is_receive, is_send
from ccltui.metrics.findings.replay.lines.pass_units import (
    PassSizes,
    Transfers,
    Unit,
    labelled_units,
    pass_sizes,
    pipeline_units,
)
from ccltui.metrics.findings.replay.lines.stage_order import BACKWARD, FORWARD
from ccltui.metrics.findings.replay.lines.step_lines import LONG_GAP_NS, QUEUED_NS, LineTimes
from ccltui.metrics.model.calls import ROUNDING_NS
from ccltui.parsers.array_types import F64, I8, I32, I64, Bool


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
    silent: list[tuple[I64, Bool, SilentStage]] = []
    ratios: list[float] = []
    receives, sends = is_receive(table), is_send(table)
    posted, resumed = table.posted.copy(), table.resumed.copy()
    waits = table.waited | receives
    hidden = np.zeros(len(posted), np.bool_)
    queued = _queued(table)
    for program in programs:
        lines = program.lines[program.same]
        at = Places.of_lines(table, lines)
        one_line = at.of_first
        share = at.of(table.waited).mean(axis=0)
        is_recv, is_sent = receives[one_line], sends[one_line]
        share = np.where(_never_hidden(table, at), 1.0, share)
        awaited = is_recv | (share > np.where(is_sent, SENDS_WAITED_SHARE, WAITED_SHARE))
        early = _earliest(table, at, queued, is_sent)
        late = _latest(table, at)
        unseen = is_recv & (share < SENDS_WAITED_SHARE)
        late = np.where(
            unseen, _structural(late, early, is_sent, is_recv, table.direction[one_line]), late
        )
        at.put(posted, early)
        at.put(resumed, late)
        if program.stage in (0, last_stage) and last_stage > 0:
            towards = BACKWARD if program.stage == 0 else FORWARD
            mine = np.flatnonzero(is_recv & (table.direction[one_line] == towards))
            seen = {n: int(late[i]) for n, i in enumerate(mine) if share[i] >= SENDS_WAITED_SHARE}
            cuts = np.sort(early[is_sent & (table.direction[one_line] == 3 - towards)]).tolist()
            if cuts and len(mine):
                is_first = program.stage == 0
                one = SilentStage(cuts, len(mine), program.size, is_first, seen)
                silent.append((at.at(mine), unseen[mine], one))
                told = kernels_per_pass(one)
                ratios += [told[1] / told[0]] if told and told[0] else []
        elif is_sent.any():
            ratios += _pass_ratio(early, is_sent, table.direction[one_line])
        # Ranks of a ring pass data on in one program: what one waits for all do.
        is_passed = np.isin(table.kind[one_line], (SEND, RECV)) & (table.direction[one_line] == 0)
        at.put(waits, awaited)
        at.put(hidden, awaited & (share < SENDS_WAITED_SHARE) & ~is_passed)
    for receives_at, unseen, one in silent:
        starts = silent_starts(one, float(median_along(ratios)) if ratios else None)
        if starts is not None:
            resumed[receives_at[:, unseen]] = starts[unseen]
    return Positions(programs, posted, np.where(waits, resumed, -1), hidden)


class Places:
    """Places of the calls of lines that have equally many, by line and by call.

    Mostly all lines run one program, and their calls lie together: what is of them is looked at as
    it lies. The numbers of all places, or copies of columns, take tens of MB.
    """

    def __init__(self, first: I64, count: int) -> None:
        self.first, self.count = first, count
        self._lie_together = bool((np.diff(first) == count).all())

    @classmethod
    def of_lines(cls, table: CallTable, lines: I64) -> Places:
        """Return the places of the calls of lines that make the same calls."""
        first = table.first_call[lines]
        return cls(first, int(table.first_call[lines[0] + 1] - first[0]))

    @property
    def of_first(self) -> I64:
        """Places of the calls of the first line."""
        return np.arange(self.first[0], self.first[0] + self.count)

    def at(self, calls: I64) -> I64:
        """Return the places of some calls, [lines, calls]."""
        return self.first[:, np.newaxis] + calls

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of the calls, [lines, calls]; a view where they lie together."""
        if not self._lie_together:
            return values[self.at(np.arange(self.count))]
        size = len(self.first) * self.count
        return values[self.first[0] : self.first[0] + size].reshape(len(self.first), self.count)

    def put(self, values: npt.NDArray[Any], found: npt.NDArray[Any]) -> None:
        """Set the values of each call to one of all lines."""
        if self._lie_together:
            self.of(values)[:] = found
        else:
            values[self.at(np.arange(self.count))] = found


def _latest(table: CallTable, at: Places) -> I32:
    """Latest first kernel behind each call; where most lines saw what waits for it, that of most.

    Without launch records an error of the times puts single lines behind the kernel that waits.
    """
    latest: I32 = at.of(table.resumed).max(axis=0)
    unlaunched = ~at.of(table.launched).any(axis=0)
    if not unlaunched.any():
        return latest
    agreed = _most_common(at.of(table.resumed), at.of(table.waited))
    seen = at.of(table.waited).mean(axis=0) >= SENDS_WAITED_SHARE
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


def _never_hidden(table: CallTable, at: Places) -> Bool:
    """Calls of a kind during which no kernel ever ran, at any place on any line.

    What follows waits for them, also where a pause of the host behind them hides that.
    """
    _, kind = np.unique(table.token[at.of_first], return_inverse=True)
    hidden = (at.of(table.posted) < at.of(table.resumed)).any(axis=0)
    hidden |= table.kind[at.of_first] == SEND
    return np.asarray(np.bincount(kind.reshape(-1), weights=hidden)[kind.reshape(-1)] == 0)


def _earliest(table: CallTable, at: Places, queued: Bool, is_sent: Bool) -> I32:
    """Earliest position of each call; of those that were queued on every line a closer bound.

    Of calls without a launch record single lines are left out: an error of the times puts them
    before the kernel that feeds them.

    A call is not posted before the one that kept it. A send is posted at the end of its pass, which
    has as many kernels as the others of its direction.
    """
    early: I32 = at.of(table.posted).min(axis=0)
    unlaunched = ~at.of(table.launched).any(axis=0)
    if unlaunched.any():
        fewest = np.sort(at.of(table.posted), axis=0)[int(OUTLIERS * len(at.first))]
        early = np.where(unlaunched, fewest, early)
    kept = at.of(queued).all(axis=0)
    kept_sends = np.flatnonzero(kept & is_sent)
    for place in np.flatnonzero(kept & ~is_sent).tolist():
        before = int(table.behind[at.first[0] + place] - at.first[0])
        if 0 <= before < len(early):
            early[place] = min(early[place], early[before])
    direction = table.direction[at.of_first]
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
    found = ~table.launched & (table.behind >= 0)
    rows = np.flatnonzero(found)  # where launches are recorded there is none
    before = table.behind[rows]
    gap = table.start_ns[rows].astype(np.int64) - table.start_ns[before] - table.dur_ns[before]
    found[rows] = np.abs(gap) <= QUEUED_NS
    return found


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


WAIT, POST, MARK = 0, 1, 2
"""Kinds of operations: wait for the end of a call, post a call, mark the end of a unit or line."""

RESUMED_NS: Final = 200_000
"""A host that waited for a call launches its next kernel this soon after the end of the call. In
the pause of a host that does something else calls end at any time."""
CALL_SHARE: Final = 0.125
"""Share of a call before whose end another one without a launch record may begin, and still come
after it: the times of some sources are rounded."""


class Template(NamedTuple):
    """The operations of lines of one program whose positions are the same."""

    lines: I64
    at: I64
    kind: I8
    call: I64  # place among the calls of the line
    segment: I64  # that ends with it, place among those of the line, -1 for none
    unit: I64  # of each segment, place among the units of the line, -1 for none
    units: Sequence[Unit]
    program: int
    single: Bool  # [lines, operations]: a wait of other lines alone
    is_usual: bool = True  # False: of a line with another number of kernels


class _Times(NamedTuple):
    """Start and end of the calls of lines, [lines, calls], with what may be wrong with them.

    A call may begin `slack` before the end of one that it waits for, and only ROUNDING_NS where
    its own launch is recorded (``launched``, by call).
    """

    started: Whole
    ended: Whole
    rounding_ns: int
    launched: Bool

    @classmethod
    def of(cls, table: CallTable, every: Places, rounding_ns: int) -> _Times:
        started: Whole = every.of(table.start_ns)
        ended: Whole = started + every.of(table.dur_ns)
        launched = np.asarray(every.of(table.launched).any(axis=0))
        return cls(started, ended, max(rounding_ns, ROUNDING_NS), launched)

    def slack(self, line: int, calls: I64) -> F64:
        """How long before the end of calls of a line another one may begin, ns."""
        length = self.ended[line].take(calls) - self.started[line].take(calls)
        found: F64 = np.clip(CALL_SHARE * length, ROUNDING_NS, self.rounding_ns)
        return found


def templates_of(
    own: LineTimes,
    table: CallTable,
    found: Positions,
    num_stages: int,
    label_of: Callable[[int], I8],
    *,
    rounding_ns: int,
) -> list[Template]:
    """Return the operations of all lines, those of lines with the same positions together.

    Args:
        own: times along the lines.
        table: their calls.
        found: the positions of the calls.
        num_stages: number of pipeline stages.
        label_of: returns the label of each row of ``gpu`` of a rank (an index).
        rounding_ns: how far apart a call without a launch record and a kernel may be recorded.
    """
    ranks, sizes, places = own.ranks, own.size, own.place
    sends, receives = is_send(table), is_receive(table)

    def labels_of(line: int) -> I8:
        one, place = ranks[table.rank[line]], places[line]
        mine = one.gpu_row[one.first[place] : one.stop[place]]
        labels: I8 = label_of(int(table.rank[line])).take(mine)
        return labels

    def transfers_of(line: int) -> Transfers:
        mine = np.arange(table.first_call[line], table.first_call[line + 1])
        return Transfers.of(
            table.direction,
            found.posted,
            found.resumed,
            sends=mine[sends[mine]],
            receives=mine[receives[mine]],
        )

    leaders = [int(program.lines[program.same][0]) for program in found.programs]
    share = _forward_share(
        [
            pass_sizes(transfers_of(line), int(sizes[line]), **_ends(program, num_stages))
            for line, program in zip(leaders, found.programs, strict=True)
            if program.stage >= 0 and num_stages > 1
        ]
    )
    templates = []
    for number, program in enumerate(found.programs):
        lines = program.lines[program.same]
        line = int(lines[0])
        transfers = transfers_of(line)
        size = int(sizes[line])
        if program.stage >= 0 and num_stages > 1 and transfers:
            units = pipeline_units(
                transfers,
                size,
                labels_of(line),
                forward_share=share,
                **_ends(program, num_stages),
            )
        else:
            units = labelled_units(labels_of(line))
        usual = _template(own, lines, table, found, (size, units, number), rounding_ns=rounding_ns)
        templates.append(usual)
        for other in program.lines[~program.same].tolist():
            both = (line, size), (other, int(sizes[other]))
            at = _moved_positions(usual, table, found, *both)
            templates.append(
                usual._replace(
                    lines=np.array([other], np.int64),
                    at=at,
                    single=np.asarray(usual.single.any(axis=0, keepdims=True)),
                    is_usual=False,
                )
            )
    return templates


def _moved_positions(
    usual: Template,
    table: CallTable,
    found: Positions,
    one: tuple[int, int],
    other: tuple[int, int],
) -> I64:
    """Positions of the operations on a line with another number of kernels.

    They are moved in proportion between the positions at which calls were seen on both. ``one`` and
    ``other`` are a usual line and that line with their numbers of kernels.
    """
    (line, size), (odd, odd_size) = one, other
    here = slice(int(table.first_call[line]), int(table.first_call[line + 1]))
    there = slice(int(table.first_call[odd]), int(table.first_call[odd + 1]))
    exact = table.posted[here] == found.posted[here]
    waited = (found.resumed[here] >= 0) & ~found.hidden[here] & table.waited[there]
    known = np.concatenate((found.posted[here][exact], found.resumed[here][waited], [0, size]))
    own = np.concatenate((table.posted[there][exact], table.resumed[there][waited], [0, odd_size]))
    places, number = np.unique(known, return_inverse=True)
    mean = np.bincount(number.reshape(-1), weights=own) / np.bincount(number.reshape(-1))
    mean = np.maximum.accumulate(mean)
    moved = np.rint(np.interp(usual.at, places, mean)).astype(np.int64)
    return np.clip(np.maximum.accumulate(moved), 0, odd_size)


def _ends(program: Program, num_stages: int) -> dict[str, bool]:
    return {"is_first": program.stage == 0, "is_last": program.stage == num_stages - 1}


def _forward_share(sizes: Sequence[PassSizes]) -> float:
    known = [(one.forward, one.backward) for one in sizes if one.forward and one.backward]
    forward = sum(one for one, _ in known if one)
    backward = sum(one for _, one in known if one)
    return forward / (forward + backward) if known else 0.5


def _template(
    own: LineTimes,
    lines: I64,
    table: CallTable,
    found: Positions,
    program: tuple[int, Sequence[Unit], int],
    *,
    rounding_ns: int,
) -> Template:
    """Order the operations of lines that have the positions of the first of them.

    The lines are those of one program with the usual number of kernels.
    """
    size, units, number = program
    every = Places.of_lines(table, lines)
    begin, count, mine = int(every.first[0]), every.count, every.of_first
    never = found.resumed[mine] < 0
    at_wait = np.where(never, size, np.clip(found.resumed[mine], 0, size))
    at_post = np.minimum(np.clip(found.posted[mine], 0, size), at_wait)
    before = np.maximum(table.behind[mine] - begin, -1)
    while (too_early := (before >= 0) & (at_wait < at_post[before])).any():
        # Nothing can wait for a call before the one that keeps it is posted.
        at_wait[too_early] = at_post[before[too_early]]
        at_post = np.minimum(np.clip(found.posted[mine], 0, size), at_wait)
    last = np.where(never, 2, found.hidden[mine]).astype(np.int64)
    is_recv = table.kind[mine] == RECV
    times = _Times.of(table, every, rounding_ns)
    level = _followed(times, at_wait, last == 0)
    in_turn = np.lexsort((times.ended.mean(axis=0), is_recv, level, last, at_wait))
    turn = np.empty(count, np.int64)
    turn[in_turn] = np.arange(count) - np.searchsorted(at_wait[in_turn], at_wait[in_turn])
    visible = in_turn[last[in_turn] == 0]
    follows = _waits_before(times, at_post, at_wait, visible)
    # A send does not wait for the next receive of its pipeline, but for one of its ring.
    made = visible[~is_receive(table)[mine][visible]]
    passed = _waits_before(times, at_post, at_wait, made)
    final = made[np.searchsorted(at_wait[made], at_post) + passed - 1] if len(made) else in_turn
    follows = np.where(is_send(table)[mine], np.where(passed > 0, turn[final] + 1, 0), follows)
    edges = np.array([unit.stop for unit in units if unit.stop < size], np.int64)
    early, early_at, shown = _waits_of_lines(own, lines, table, (every, at_wait))
    extra = len(early)
    at = np.concatenate((at_post, at_wait, early_at, edges, [size]))
    kind = np.concatenate(
        (np.full(count, POST), np.full(count + extra, WAIT), np.full(len(edges) + 1, MARK))
    ).astype(np.int8)
    call = np.concatenate((np.arange(count), np.arange(count), early, np.full(len(edges) + 1, -1)))
    place = np.concatenate(
        (
            2 * follows,
            2 * turn + 1,
            np.full(extra, 2 * count + 1),
            np.full(len(edges), -2),
            [2 * count + 2],
        )
    )
    single = np.zeros((len(lines), len(at)), np.bool_)
    single[:, 2 * count : 2 * count + extra] = ~shown
    when = np.concatenate((times.started.mean(axis=0), np.zeros(count + extra + len(edges) + 1)))
    order = np.lexsort((when, place, at))
    at = at[order]
    stops = np.array([unit.stop for unit in units], np.int64)
    moves = np.flatnonzero(np.diff(at, prepend=-1) > 0)
    segment = np.full(len(at), -1)
    segment[moves] = np.arange(len(moves))
    unit = np.searchsorted(stops, at[moves], side="left") if len(units) else np.full(len(moves), -1)
    unit[at[moves] == 0] = -1  # before the first kernel
    single = single[:, order]
    return Template(lines, at, kind[order], call[order], segment, unit, units, number, single)


def _waits_of_lines(
    own: LineTimes, lines: I64, table: CallTable, calls: tuple[Places, I64]
) -> tuple[I64, I64, Bool]:
    """Waits for calls that single lines show at an earlier position than their program has them.

    A host that waits for a call launches nothing: its device idles before work that runs beside
    the call elsewhere. Most of such a long idle time is one in which the call waits for a member.

    Args:
        own: times along the lines.
        lines: those of one program.
        table: their calls.
        calls: places of the calls of the lines, and the position of the wait for each.

    Returns:
        Places of calls, positions of waits, and which lines show each, [lines, waits].
    """
    every, at_wait = calls
    shown_early = every.of(table.waited) & (every.of(table.resumed) < at_wait)
    row, nth = np.nonzero(shown_early)
    one = every.first[row] + nth
    at, instance = table.resumed[one], table.instance[one]
    before, start, _, _ = own.along(lines[row], at)
    begun, length = table.start_ns[one], table.dur_ns[one]
    covered = np.minimum(start, begun + length) - np.maximum(before, begun)
    waited = np.minimum(covered, length - np.append(table.transfer_ns, 0)[instance])
    gap = start - before
    shows = (instance >= 0) & (gap >= LONG_GAP_NS) & (2 * waited >= gap) & (at > 0)
    shows &= start - (begun + length) <= RESUMED_NS
    wide = int(at_wait.max(initial=0)) + 1
    key, number = np.unique((nth * wide + at)[shows], return_inverse=True)
    shown = np.zeros((len(lines), len(key)), np.bool_)
    shown[row[shows], number.reshape(-1)] = True
    return key // wide, key % wide, shown


def _followed(times: _Times, at_wait: I64, visible: Bool) -> I64:
    """Number of the waits at its position whose calls each call began after, on every line."""
    found = np.zeros(len(at_wait), np.int64)
    order = np.flatnonzero(visible)[np.argsort(at_wait[visible], kind="stable")]
    edges = np.flatnonzero(np.diff(at_wait[order], prepend=-1, append=-1))
    begin, size = edges[:-1], np.diff(edges)
    place = np.repeat(begin, size)  # first call at the position of each
    left = np.flatnonzero(np.repeat(size, size) > 1)
    stop = np.repeat(begin + size, size)
    turn = 0
    while len(left):  # the n-th wait of all positions at once
        found[order[left]] += _after(times, order[left], order[place[left] + turn])
        turn += 1
        left = left[place[left] + turn < stop[left]]
    return found


def _after(times: _Times, calls: I64, waits: I64) -> Bool:
    """Whether each call began after the end of a wait on every line."""
    found = np.ones(len(calls), np.bool_)
    launched = times.launched[calls]
    is_told = bool(launched.all())
    allowed: F64 | int = ROUNDING_NS
    for line, (start, end) in enumerate(zip(times.started, times.ended, strict=True)):
        if not is_told:
            allowed = np.where(launched, ROUNDING_NS, times.slack(line, waits))
        found &= start.take(calls) >= end.take(waits) - allowed
        if not found.any():
            break
    return found


def _waits_before(times: _Times, at_post: I64, at_wait: I64, waits: I64) -> I64:
    """Number of the waits at its position that each call began after, on every line.

    ``waits`` are calls in the order of their waits.
    """
    found = np.zeros(len(at_post), np.int64)
    places = at_wait[waits]
    low = np.searchsorted(places, at_post, side="left")
    high = np.searchsorted(places, at_post, side="right")
    left = np.flatnonzero(high > low)
    while len(left):  # the next wait of all calls at once
        wait = waits[low[left] + found[left]]
        left = left[(wait != left) & _after(times, left, wait)]
        found[left] += 1
        left = left[low[left] + found[left] < high[left]]
    return found
