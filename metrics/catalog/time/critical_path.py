"""Share of communication on the critical path of a step, over all ranks.

Follow the critical path of each step backwards through the work of all ranks.

On one rank, the predecessor of a piece of work is the work that ended last before it began; the gap
between the two is host time where the launch came after the predecessor's end. At a collective
the path continues on the member that arrived last, because the others waited for it. Only durations
are used; clocks are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.by_column import take_rows
from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.reductions import counts_up, distinct_values, unique_inverse
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.collectives.matching.match import MEDIUM
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.metric import metric
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.model.rank_steps import NOT_LAUNCHED
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.rank_view import FOREVER_NS, in_turn
from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.metrics.collectives.arrivals import GroupArrivals
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import RankTrace, Strings


class Lane:
    """The device work of one rank, with the predecessor of each piece.

    ``before`` is the piece that ended last before each piece began, -1 without any. ``jump_lane``
    and ``jump_to`` are the lane and the piece of another rank at which the path continues, -1 where
    it stays on this lane.
    """

    def __init__(self, rank: RankView) -> None:
        self.rank = rank
        gpu = rank.trace.group("gpu")
        rows = np.flatnonzero(gpu.dur_ns > 0)  # work without duration delays nothing
        self.start, self._length = np.ascontiguousarray(gpu.start_ns), gpu.dur_ns
        if len(rows) < len(gpu):
            self.start, self._length = self.start.take(rows), self._length.take(rows)
        rows = with_ties_by_name(rows, self.start, self._length, gpu.name, rank.trace.strings)
        # Mostly all rows in their order: then columns of the trace serve, and nothing is held.
        self._rows = None if len(rows) == len(gpu) and counts_up(rows) else rows.astype(np.int32)
        self.before, self._ends_last = before_and_last(self.start, self.start + self._length)
        self.jump_lane = np.full(len(rows), MISSING, np.int32)
        self.jump_to = np.full(len(rows), MISSING, np.int32)

    def end(self, piece: int) -> int:
        """Return the end of a piece."""
        return int(self.start[piece]) + int(self._length[piece])

    def ends(self, pieces: I64 | I32) -> I64:
        """Return the ends of some pieces."""
        return self.start[pieces] + self._length[pieces]

    def rows_of(self, pieces: I64) -> I64:
        """Return the rows of ``gpu`` of some pieces."""
        return pieces if self._rows is None else self._rows[pieces].astype(np.int64)

    @cached_property
    def of_call(self) -> I32:
        """Piece of work of each of the rank's calls, -1 for a call without duration."""
        calls = self.rank.recorded_calls
        if calls.event_group != "gpu":
            return np.full(len(calls), MISSING, np.int32)
        rows = calls.rows.of("gpu")
        if self._rows is None:
            return rows.astype(np.int32)
        piece = np.full(len(self.rank.facts.classes), MISSING, np.int32)
        piece[self._rows] = np.arange(len(self._rows))
        return piece[rows]

    def last_before(self, time_ns: int) -> int:
        """Return the piece that ends last among those that began before a time, -1 without any."""
        begun = int(np.searchsorted(self.start, time_ns, side="left"))
        return int(self._ends_last[begun - 1]) if begun else MISSING

    def along(self, piece: int, outside: int) -> tuple[I64, int]:
        """Follow predecessors from a piece to the first with an index below ``outside``.

        The chain ends earlier before a piece that leads to another lane. ``jump_lane`` must not
        change after the first call.

        Returns:
            The pieces of the chain, and the piece that leads to another lane, else -1.
        """
        if available():
            from ccltui.metrics.arrays import _passes  # noqa: PLC0415

            found: tuple[I64, int] = _passes.along(self.before, self.jump_lane, piece, outside)
            return found
        before, jump = self._lists
        chain = [piece]
        most = piece + 2  # predecessors have smaller indices where starts ascend, as they must
        while piece >= outside:
            piece = before[piece]
            if piece < 0 or jump[piece] >= 0 or len(chain) == most:
                return np.array(chain, np.int64), piece
            chain.append(piece)
        return np.array(chain, np.int64), MISSING

    @cached_property
    def _lists(self) -> tuple[list[int], list[int]]:
        """Columns as lists, which are faster than arrays for access to single elements."""
        return self.before.tolist(), self.jump_lane.tolist()


def with_ties_by_name(rows: I64, start: I64, length: I64, name: I32, strings: Strings) -> I64:
    """Return ascending rows with those of one start and one duration in order of their names.

    The file may have them in any order, and one of them is the piece that ends last. ``name`` is by
    row; start and length are of the rows given, and of those returned as well.
    """
    alike = (start[1:] == start[:-1]) & (length[1:] == length[:-1])
    if not alike.any():
        return rows
    tied = np.append(alike, False) | np.append(False, alike)
    names, place = unique_inverse(name.take(rows[tied]))
    texts = [strings[one] if one >= 0 else "" for one in names.tolist()]
    order = sorted(range(len(names)), key=texts.__getitem__)
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    found = rows.copy()
    found[tied] = rows[tied][np.lexsort((rank[place], -length[tied], start[tied]))]
    return found


def before_and_last(start_ns: I64, end_ns: I64) -> tuple[I32, I32]:
    """Return, for each piece, its predecessor, and the piece that ends last among those up to it.

    Args:
        start_ns: starts of the pieces, ascending.
        end_ns: ends of the pieces, after their starts.

    Returns:
        Indices, int32: the piece that ended last before each piece began, -1 without any, and the
        piece that ends last among those up to it. Of several that end together the last one.
    """
    by_end = np.argsort(end_ns, kind="stable")  # quick: ends are nearly in order
    if available():
        from ccltui.metrics.arrays import _passes  # noqa: PLC0415

        found: tuple[I32, I32] = _passes.before_and_last(start_ns, end_ns, by_end)
        return found
    place = np.searchsorted(end_ns[by_end], start_ns, side="right") - 1
    before = np.where(place >= 0, by_end[place], MISSING).astype(np.int32)
    pieces = np.arange(len(end_ns), dtype=np.int32)
    reaches = np.where(end_ns == np.maximum.accumulate(end_ns), pieces, np.int32(0))
    return before, np.maximum.accumulate(reaches)


WORK: Final = ("communication", "compute", "memory")
"""Parts of a path that are work, by the class of the work."""
PARTS: Final = (*WORK, "host", "launch", "wait")

Windows = Mapping[str, tuple[int, int]]
"""Start and end by rank label."""


class Pieces(Struct, frozen=True):
    """The pieces of one rank on the critical paths; arrays of one length, times in ns.

    A piece without name and work is the host time before the first work of a path.

    Attributes:
        label: label of the rank.
        path: number of the path, the one given to `Walk.walk_back`.
        name: string id of the rank.
        part: kind of work, an index into WORK.
        work: length of the piece.
        host: host time before it.
        launch: time from its launch to its start.
        wait: time before it in which it was launched and had not started.
    """

    label: str
    path: I64
    name: I64
    part: I64
    work: I64
    host: I64
    launch: I64
    wait: I64


class Walk:
    """Walk the critical paths of a view backwards, one for each step."""

    def __init__(self, view: View) -> None:
        self.view = view
        ranks = [rank for rank in view.ranks if rank.facts.has_device]
        ranks.sort(key=lambda rank: (rank.rank is None, rank.rank, rank.label))
        self.lanes = [Lane(rank) for rank in in_turn(ranks)]
        self.index = {rank.label: i for i, rank in enumerate(ranks)}
        for arrived in view.arrivals.groups:
            self._link_to_last_arrival(arrived)
        self._link_transfers()
        self.crossings = 0
        self._found: list[list[tuple[int, I64, int, int]]] = [[] for _ in self.lanes]
        self._held: list[list[tuple[int, int]]] = [[] for _ in self.lanes]

    def _link(self, source: int, calls: I64, target: int, target_calls: I64) -> None:
        """Record that paths continue from calls of one lane to those of another."""
        here = self.lanes[source].of_call[calls]
        there = self.lanes[target].of_call[target_calls]
        known = (here >= 0) & (there >= 0)
        self.lanes[source].jump_lane[here[known]] = target
        self.lanes[source].jump_to[here[known]] = there[known]

    def _link_to_last_arrival(self, arrived: GroupArrivals) -> None:
        """Link members of a collective to the last arrival where confidence is medium or high."""
        last = arrived.clock_free.last
        is_confident = arrived.eligible & (arrived.confidence >= MEDIUM) & (last >= 0)
        for late in distinct_values(last[is_confident]).tolist():
            target = self.index.get(arrived.labels[late])
            rows = take_rows(arrived.match.rows, np.flatnonzero(is_confident & (last == late)))
            for member, label in enumerate(arrived.labels):
                if target is not None and member != late and label in self.index:
                    self._link(self.index[label], rows[:, member], target, rows[:, late])

    def _link_transfers(self) -> None:
        """Link the side of a transfer that waited to the other side."""
        pairs, inputs = self.view.pairs, self.view.match_inputs
        for code in distinct_values(pairs.sender * len(inputs) + pairs.receiver).tolist():
            sender, receiver = divmod(code, len(inputs))
            labels = inputs[sender].label, inputs[receiver].label
            if labels[0] not in self.index or labels[1] not in self.index:
                continue
            mine = (pairs.sender == sender) & (pairs.receiver == receiver)
            sent, got = pairs.send_row[mine], pairs.recv_row[mine]
            early = inputs[sender].calls.dur_ns[sent] - inputs[receiver].calls.dur_ns[got]
            one, other = self.index[labels[0]], self.index[labels[1]]
            self._link(other, got[early < 0], one, sent[early < 0])
            self._link(one, sent[early > 0], other, got[early > 0])

    def walk_back(self, path: int, opened: Windows) -> bool:
        """Walk from the work that ends last in the windows to the start of the first window.

        Pieces are clipped to the windows. The path ends on some rank; where its window opens after
        the first window of all ranks, the difference is host time of that rank.

        Args:
            path: number of the path in the result.
            opened: start and end of the window of each rank.

        Returns:
            False where there is no work in the windows.
        """
        last = self.last_work(opened)
        if last is None:
            return False
        lane, piece = last
        reached: dict[int, int] = {}
        outside: dict[int, int] = {}  # of each lane, its first piece after the start of its window
        passed: set[tuple[int, int]] = set()
        while piece >= 0 and (lane, piece) not in passed:  # no circle, whatever the times are
            passed.add((lane, piece))
            lane, piece = self._across(lane, piece, opened, reached)
            window = opened[self.lanes[lane].rank.label]
            if lane not in outside:
                starts = self.lanes[lane].start
                outside[lane] = int(np.searchsorted(starts, window[0], side="right"))
            chain, leads = self.lanes[lane].along(piece, outside[lane])
            # The last piece may end where the window opens, so that none of it is in the window.
            ended = leads < 0 or self.lanes[lane].end(leads) <= window[0]
            piece = MISSING if ended else leads
            reached[lane] = int(self.lanes[lane].start[chain[-1]])
            self._found[lane].append((path, chain, *window))
        self._held[lane].append((path, self._opened_late(lane, opened)))
        return True

    def _opened_late(self, lane: int, opened: Windows) -> int:
        """Time from the start of the first window to that of a lane; 0 for unknown clocks."""
        if not self.one_clock:
            return 0
        starts = {label: self._on_job_clock(label, start) for label, (start, _) in opened.items()}
        return starts[self.lanes[lane].rank.label] - min(starts.values())

    def _on_job_clock(self, label: str, time_ns: int) -> int:
        return int(self.view.on_job_clock(label, np.array(time_ns, np.int64)))

    @cached_property
    def one_clock(self) -> bool:
        """Whether times of all ranks are comparable: corrected, or raw clocks are selected."""
        view, labels = self.view, list(self.index)
        return len(labels) < 2 or view.options.raw_clocks or view.clocks.comparable(labels)

    def _across(
        self, lane: int, piece: int, opened: Windows, reached: dict[int, int]
    ) -> tuple[int, int]:
        """Continue on the last rank to arrive at the collective, if it has a window."""
        other = int(self.lanes[lane].jump_lane[piece])
        if other < 0 or self.lanes[other].rank.label not in opened:
            return lane, piece
        there = int(self.lanes[lane].jump_to[piece])
        # Ranks with collectives in different orders would lead around in a circle.
        if self.lanes[other].end(there) > reached.get(other, FOREVER_NS):
            return lane, piece
        self.crossings += 1
        return other, there

    def last_work(self, opened: Windows) -> tuple[int, int] | None:
        """Return lane and piece of the work that ended last on corrected clocks, or None."""
        found: list[tuple[int, int, int]] = []
        for label, (start, end) in opened.items():
            lane = self.index[label]
            piece = self.lanes[lane].last_before(end)
            if piece >= 0 and self.lanes[lane].end(piece) > start:
                ended = min(self.lanes[lane].end(piece), end)
                found.append((self._on_job_clock(label, ended), -lane, piece))
        if not found:
            return None
        _, lane, piece = max(found)
        return -lane, piece

    def pieces(self) -> list[Pieces]:
        """Return the pieces of all paths walked so far, one table per rank."""
        return [self._pieces(lane) for lane, found in enumerate(self._found) if found]

    def _pieces(self, lane: int) -> Pieces:
        of, found = self.lanes[lane], self._found[lane]
        counts = [len(chain) for _, chain, _, _ in found]
        index = np.concatenate([chain for _, chain, _, _ in found])
        path, opened, closed = (
            np.repeat(np.array([one[i] for one in found], np.int64), counts) for i in (0, 2, 3)
        )
        begun, previous = of.start[index], of.before[index]
        work = np.minimum(of.ends(index), closed) - np.maximum(begun, opened)
        released = np.maximum(np.where(previous >= 0, of.ends(previous), opened), opened)
        gap = np.maximum(begun - released, 0)
        facts, rows = of.rank.facts, of.rows_of(index)
        launched = facts.launched_ns[rows]
        late = (launched != NOT_LAUNCHED) & (launched > released)
        host = np.where(late, np.minimum(launched - np.where(late, released, 0), gap), 0)
        held = np.array(self._held[lane], np.int64).reshape(-1, 2)
        none = np.zeros(len(held), np.int64)
        return Pieces(
            label=of.rank.label,
            path=np.append(path, held[:, 0]),
            name=np.append(of.rank.trace.group("gpu").name[rows], np.int32(MISSING) - none),
            part=np.append(facts.classes[rows], none),
            work=np.append(np.maximum(work, 0), none),
            host=np.append(host, held[:, 1]),
            launch=np.append(np.where(late, gap - host, 0), none),
            wait=np.append(np.where(late, 0, gap), none),
        )


_SHOWN: Final = 20


@metric(
    unit="ratio",
    definition=(
        "Share of communication in the chain of work that determined when a step ended, "
        "followed backwards over all ranks; at a collective the chain continues on the rank "
        "that arrived last."
    ),
    needs=("GPU kernels", "more with launch records and several ranks"),
    facts=("arrivals",),
    keys=(
        "comm_on_path_ratio",
        "path_ms",
        *(f"{part}_ms" for part in PARTS),
        "by_rank",
        "work",
        "num_steps",
        "num_pieces",
        "num_crossings",
        "per_step",
    ),
    label="communication on critical path",
    higher_is_better=False,
    category="stragglers",
)
def critical_path(view: View) -> Result:
    """Walk back through every step, or through the trace where no steps are measured."""
    ranks = device_ranks(view)
    walk = Walk(view)
    steps = [step for step, opened in _windows(ranks).items() if walk.walk_back(step, opened)]
    pieces = walk.pieces()
    table = _by_step(steps, pieces)
    total = table.sum(axis=0)
    length = int(total.sum())
    if not length:
        raise refuse("window_empty", "no device work in the steps or the window")
    details: dict[str, Any] = {
        "comm_on_path_ratio": ratio(int(total[PARTS.index("communication")]), length),
        "path_ms": milliseconds(length) / len(steps),
        **{
            f"{part}_ms": milliseconds(int(ns)) / len(steps)
            for part, ns in zip(PARTS, total, strict=True)
        },
        "by_rank": _by_rank(pieces, length),
        "work": _work(pieces, {rank.label: rank.trace for rank in ranks}, length),
        "num_steps": len(steps),
        "num_pieces": sum(int((one.work > 0).sum()) for one in pieces),
        "num_crossings": walk.crossings,
        "per_step": _per_step(steps, table),
    }
    return device_answer(
        critical_path,
        view,
        details,
        basis={
            "before": "on a rank, the work that ended last before; at a "
            "collective, the rank that arrived last, which has the shortest duration",
            "gap": "host until the launch, launch from there to the start; wait if "
            "the work was launched before the gap",
            "beginning": "the first work of any rank; until the rank where the path ends "
            "begins, the time is its host's",
            "times": "means over steps",
        },
        reasons=_reasons(view, walk),
    )


def _windows(ranks: list[RankView]) -> dict[int, Windows]:
    """Device work of every step by rank label, first start to last end; step -1 is all of it.

    A path ends with the work that ends last: the idle time after it is on the path of no step.
    """
    steps: defaultdict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for rank in ranks:
        for step, start, end in rank.work_windows:
            steps[step][rank.label] = (start, end)
    return dict(sorted(steps.items()))


def _parts(one: Pieces) -> list[I64]:
    """Time of each piece by part, in the order of PARTS."""
    work = [np.where(one.part == kind, one.work, 0) for kind in range(len(WORK))]
    return [*work, one.host, one.launch, one.wait]


def _by_step(steps: list[int], pieces: list[Pieces]) -> I64:
    """Time by step and part, int64 ns [steps, parts]."""
    table = np.zeros((len(steps), len(PARTS)), np.int64)
    for one in pieces:
        row = np.searchsorted(steps, one.path)
        for part, values in enumerate(_parts(one)):
            # float64 counts whole nanoseconds exactly up to 104 days
            sums = np.bincount(row, weights=values, minlength=len(steps))
            table[:, part] += sums.astype(np.int64)
    return table


def _length(one: Pieces) -> int:
    return int((one.work + one.host + one.launch + one.wait).sum())


def _by_rank(pieces: list[Pieces], length: int) -> dict[str, Any]:
    lengths = sorted(((one.label, _length(one)) for one in pieces), key=lambda row: -row[1])
    return {label: {"ratio_of_path": ratio(ns, length)} for label, ns in lengths}


def _per_step(steps: list[int], table: I64) -> dict[str, dict[str, float]]:
    return {
        str(step): {
            "path_ms": milliseconds(int(row.sum())),
            **{f"{part}_ms": milliseconds(int(ns)) for part, ns in zip(PARTS, row, strict=True)},
        }
        for step, row in zip(steps, table, strict=True)
        if step >= 0
    }


def _work(pieces: list[Pieces], traces: dict[str, RankTrace], length: int) -> list[dict[str, Any]]:
    """Work with the most time on the path, by bare names."""
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for one in pieces:
        trace = traces[one.label]
        width = len(trace.strings) + 1
        key = one.part * width + one.name + 1
        sums = np.bincount(key, weights=one.work, minlength=len(WORK) * width)
        for code in np.flatnonzero(sums).tolist():
            part, name = divmod(code, width)
            found[WORK[part], bare_name(trace.text(name - 1))] += int(sums[code])
    ordered = sorted(found.items(), key=lambda row: (-row[1], row[0]))[:_SHOWN]
    return [
        {
            "name": name,
            "part": part,
            "ms": milliseconds(ns),
            "ratio_of_path": ratio(ns, length),
        }
        for (part, name), ns in ordered
    ]


def _reasons(view: View, walk: Walk) -> list[Reason]:
    """Reasons why the path may have missed a rank."""
    world = view.world_size
    if len(walk.lanes) == 1 and world is not None and world > 1:
        text = f"1 of {world} ranks found: waiting for the others counts as communication"
        return [Reason("single_rank", text)]
    if not walk.one_clock:
        text = "the clocks are not known against each other: which rank ended last is not certain"
        return [Reason("clock_unknown", text)]
    return []


metric_cal = critical_path.document_of
