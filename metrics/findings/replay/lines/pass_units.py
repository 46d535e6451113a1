"""Divide the line of a step into units of work: forward and backward passes, and the rest.

On a stage of a pipeline a send ends the pass that made its content, and a receive begins one. The
first stage sends no gradients and the last no activations: there one direction is known by its
receives alone, and where one pass turns into another is told by the number of kernels that a pass
has, by the thread that launched them or their names, else by the shares of the other stages.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ccltui.metrics.findings.replay.lines.stage_order import BACKWARD, FORWARD
from ccltui.metrics.findings.replay.lines.step_lines import IN_BACKWARD, IN_FORWARD, IN_OPTIMIZER
from ccltui.metrics.model.classify import COMM, distinct, per_name
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I8, I32, I64

LEAST_SHARE: Final = 0.05
"""Share of the kernels that a second thread launches, from which it is the backward thread."""

_FORWARD = re.compile(r"(?i)(?:^|[_:<\W])(?:fwd|fprop|forward)(?:[_:<\W\d]|$)")
_BACKWARD = re.compile(r"(?i)(?:^|[_:<\W])(?:bwd|dgrad|wgrad|backward)(?:[_:<\W\d]|$)")
_OPTIMIZER = re.compile(r"multi_tensor_apply|[Aa]dam(?:[wW]?[_A-Z]|w?$)|(?i:optimizer)")


def kernel_labels(facts: RankFacts) -> I8:
    """Return the label of each row of ``gpu``, int8: IN_FORWARD, …, 0 where it is not known."""
    by_thread = _by_thread(facts)
    return _by_name(facts) if by_thread is None else by_thread


def _by_thread(facts: RankFacts) -> I8 | None:
    """Backward is what the autograd engine's own thread launches; None without such a thread."""
    runtime = facts.trace.group("runtime")
    known = facts.launch_row >= 0
    kernels = np.flatnonzero((facts.classes != COMM) & known)
    if not len(kernels):
        return None
    thread = runtime.track.take(facts.launch_row.take(kernels))
    counts = np.bincount(np.maximum(thread, 0))
    main = _main_thread(facts, thread)
    counts[main] = 0
    other = int(counts.argmax())
    if counts[other] < LEAST_SHARE * len(kernels):
        return None
    labels = np.zeros(len(facts.classes), np.int8)
    labels[kernels[thread == main]] = IN_FORWARD
    labels[kernels[thread == other]] = IN_BACKWARD
    return labels


def _main_thread(facts: RankFacts, thread: np.ndarray[tuple[int], np.dtype[np.int32]]) -> int:
    """Thread of the step markers where it launches kernels, else that of the first kernel."""
    marks = facts.trace.group("annotations")
    steps = facts.marked_steps[0]
    if steps:
        row = int(np.searchsorted(marks.start_ns, steps[0].start_ns))
        if row < len(marks) and (thread == marks.track[row]).any():
            return int(marks.track[row])
    return int(max(thread[0], 0))


def _by_name(facts: RankFacts) -> I8:
    gpu, found = facts.trace.group("gpu"), {}
    for name in distinct(gpu.name):
        text = facts.trace.text(name)
        if _OPTIMIZER.search(text):
            found[name] = IN_OPTIMIZER
        elif _BACKWARD.search(text):
            found[name] = IN_BACKWARD
        elif _FORWARD.search(text):
            found[name] = IN_FORWARD
    if IN_BACKWARD not in found.values():
        found = {}
    labels = per_name(facts.trace.strings, gpu.name, found, 0)
    labels[facts.classes == COMM] = 0
    return labels


HEAD, FORWARD_PASS, BACKWARD_PASS, TAIL, WHOLE, BETWEEN = range(6)
"""Types of units: before the first pass, passes, after the last, a whole step, and the rest."""
TYPE_NAMES: Final = ("head", "forward", "backward", "tail", "step", "between")
MAX_RUNS: Final = 256
"""Most passes that labels of kernels may give in a step: more are not passes."""

_PASS: Final = {FORWARD: FORWARD_PASS, BACKWARD: BACKWARD_PASS}
_LABEL: Final = {FORWARD_PASS: IN_FORWARD, BACKWARD_PASS: IN_BACKWARD}


class Unit(NamedTuple):
    """Kernels ``first`` to ``stop`` of a line: the ``number``-th unit of its type."""

    first: int
    stop: int
    type: int
    number: int


class Transfers(NamedTuple):
    """Positions of the transfers of a line by direction: ends of passes, and starts."""

    sent: dict[int, list[int]]
    received: dict[int, list[int]]

    @classmethod
    def of(
        cls, direction: I8, posted: I32, resumed: I32, *, sends: I64, receives: I64
    ) -> Transfers:
        """Collect the positions; ``sends`` and ``receives`` are places in the other arrays."""
        sent = {d: sorted(posted[sends[direction[sends] == d]].tolist()) for d in _PASS}
        got = {d: sorted(resumed[receives[direction[receives] == d]].tolist()) for d in _PASS}
        return cls(sent, got)

    def __bool__(self) -> bool:
        return any(self.sent.values()) or any(self.received.values())


class _Piece(NamedTuple):
    """Kernels of one pass (``begins`` = ``ends``), of two (a turn), or of none (both 0)."""

    first: int
    stop: int
    begins: int
    ends: int


class PassSizes(NamedTuple):
    """Number of kernels of a forward and a backward pass, None where no piece is one alone."""

    forward: int | None
    backward: int | None

    def of(self, kind: int) -> int | None:
        """The number of one type."""
        return self.forward if kind == FORWARD_PASS else self.backward


def pass_sizes(transfers: Transfers, size: int, *, is_first: bool, is_last: bool) -> PassSizes:
    """Return the usual number of kernels of the passes that are alone between two transfers."""
    return _sizes_of(_pieces(transfers, size, is_first=is_first, is_last=is_last))


def _sizes_of(pieces: Sequence[_Piece]) -> PassSizes:
    found = []
    for kind in (FORWARD_PASS, BACKWARD_PASS):
        alone = [p for p in pieces[1:-1] if p.begins == p.ends == kind]
        # The first may begin with the optimizer, where steps were found by the period of calls.
        whole = [p for p in alone if p.first > 0] or alone
        sizes = Counter(p.stop - p.first for p in whole)
        found.append(sizes.most_common(1)[0][0] if sizes else None)
    return PassSizes(*found)


def pipeline_units(
    transfers: Transfers,
    size: int,
    labels: I8,
    *,
    is_first: bool,
    is_last: bool,
    forward_share: float,
) -> list[Unit]:
    """Return the units of a line of a pipeline stage, in order, without empty ones.

    Args:
        transfers: positions of its transfers.
        size: number of its kernels.
        labels: label of each kernel.
        is_first: whether it is on the first stage.
        is_last: whether it is on the last stage.
        forward_share: share of forward kernels in the passes of the other stages.
    """
    pieces = _pieces(transfers, size, is_first=is_first, is_last=is_last)
    sizes, counts = _sizes_of(pieces), _LabelCounts.of(labels)
    parts: list[tuple[int, int, int]] = []
    for number, piece in enumerate(pieces):
        parts += _split(piece, sizes, counts, forward_share, last=number == len(pieces) - 1)
    return _numbered(parts)


def _pieces(transfers: Transfers, size: int, *, is_first: bool, is_last: bool) -> list[_Piece]:
    """Cut a line at the ends of passes, and at the starts of those that end without a send."""
    silent = BACKWARD if is_first else FORWARD if is_last else 0
    ends = sorted(
        (place, _PASS[direction])
        for direction, places in transfers.sent.items()
        for place in places
    )
    starts = sorted(set(transfers.received.get(silent, ())))
    begun = [min(places) for places in transfers.received.values() if places]
    at = 0 if is_first or not begun else min(begun)
    found = [_Piece(0, at, 0, 0)]
    for place, kind in [*ends, (size, 0)]:
        inside = starts[bisect_left(starts, at) : bisect_left(starts, place)]
        begins = 0
        for start in inside:
            if start > at:
                found.append(_Piece(at, start, begins, begins))
            at, begins = start, _PASS[silent]
        if place > at or (kind == 0):
            found.append(_Piece(at, max(place, at), begins or kind, kind))
        at = max(at, place)
    return found


class _LabelCounts(NamedTuple):
    """Labels of the kernels of a line, and how many of each type lie before each position."""

    labels: I8
    before: dict[int, I64]
    surplus: I64  # of forward over backward kernels

    @classmethod
    def of(cls, labels: I8) -> _LabelCounts:
        before = {
            kind: np.concatenate(([0], np.cumsum(labels == label)))
            for kind, label in _LABEL.items()
        }
        return cls(labels, before, before[FORWARD_PASS] - before[BACKWARD_PASS])

    def any(self, kind: int, first: int, stop: int) -> bool:
        """Return whether kernels ``first`` to ``stop`` include one of a type."""
        return bool(self.before[kind][stop] > self.before[kind][first])


def _split(
    piece: _Piece, sizes: PassSizes, counts: _LabelCounts, forward_share: float, *, last: bool
) -> list[tuple[int, int, int]]:
    """Return first, stop and type of the units of a piece."""
    first, stop, begins, ends = piece
    size = stop - first
    if begins == ends == 0:
        kind = HEAD if first == 0 and not last else TAIL if last else BETWEEN
        return [(first, stop, kind)]
    if last:  # the last pass of a stage that sends nothing, and what follows it
        alone = sizes.of(begins)
        turn = first + (alone if alone is not None else _own_end(counts.labels[first:stop], begins))
        return [(first, min(turn, stop), begins), (min(turn, stop), stop, TAIL)]
    if begins == ends:
        usual = sizes.of(begins)
        if first == 0 and usual is not None and usual < size:
            return [(0, stop - usual, HEAD), (stop - usual, stop, begins)]
        return [(first, stop, begins)]
    turn = first + _turn(counts, piece, sizes, forward_share)
    return [(first, turn, begins), (turn, stop, ends)]


def _own_end(labels: I8, kind: int) -> int:
    """Number of kernels up to the last one with the label of a pass; all where none has one."""
    mine = np.flatnonzero(labels == _LABEL[kind])
    return int(mine[-1]) + 1 if len(mine) else len(labels)


def _turn(counts: _LabelCounts, piece: _Piece, sizes: PassSizes, forward_share: float) -> int:
    """Number of kernels of the first of two passes."""
    begins, ends = piece.begins, piece.ends
    first, stop = (min(place, len(counts.labels)) for place in (piece.first, piece.stop))
    count = stop - first
    one, other = sizes.of(begins), sizes.of(ends)
    if one is not None and one < count:
        return one
    if other is not None and other < count:
        return count - other
    share = forward_share if begins == FORWARD_PASS else 1 - forward_share
    usual = min(max(round(share * count), 1), max(count - 1, 1))
    if counts.any(begins, first, stop) and counts.any(ends, first, stop):
        # Most kernels of the one type before the turn and of the other behind it. Where few have a
        # type, the turn may be at any place between the last of the one and the first of the other.
        surplus = counts.surplus[first : stop + 1] * (1 if begins == FORWARD_PASS else -1)
        low = int(surplus.argmax())
        high = low + int((surplus[low:] == surplus[low]).argmin() or len(surplus) - low) - 1
        return min(max(usual, low), high)
    return usual


def labelled_units(labels: I8) -> list[Unit]:
    """Return the units of a line without a pipeline: runs of labels, or the whole step as one.

    A line may begin with the optimizer, where steps were found by the period of calls.
    """
    size = len(labels)
    whole = [Unit(0, size, WHOLE, 0)] if size else []
    known = np.flatnonzero(labels)
    if not (labels == IN_BACKWARD).any() or not len(known):
        return whole
    labels = _with_leads(labels, known)
    source = np.maximum.accumulate(np.where(labels > 0, np.arange(size), -1))
    filled = np.where(source >= 0, labels[np.maximum(source, 0)], labels[known[0]])
    last = int(np.flatnonzero(filled == IN_BACKWARD)[-1])
    edges = np.flatnonzero(np.diff(filled[: last + 1], prepend=-1))
    if len(edges) > MAX_RUNS:
        return whole
    stops = [*edges[1:].tolist(), last + 1]
    kinds = {IN_FORWARD: FORWARD_PASS, IN_BACKWARD: BACKWARD_PASS}
    parts = [
        (begin, stop, kinds.get(int(filled[begin]), BETWEEN if begin else HEAD))
        for begin, stop in zip(edges.tolist(), stops, strict=True)
    ]
    return _numbered([*parts, (last + 1, size, TAIL)])


def _with_leads(labels: I8, known: I64) -> I8:
    """Return the labels with those of the kernels that begin each forward pass.

    Names tell some kernels of a pass. As few as lie before the first named one anywhere, behind
    another pass or the optimizer, begin all passes: what else lies there may end the pass before.
    """
    before = np.diff(known, prepend=-1) - 1
    begins = (labels[known] == IN_FORWARD) & (np.append(0, labels[known[:-1]]) != IN_FORWARD)
    begins[0] = False  # a line may begin within a pass
    found = labels.copy()
    lead = int(before[begins].min(initial=len(labels)))
    for place in known[begins].tolist():
        found[place - lead : place] = IN_FORWARD
    return found


def _numbered(parts: Sequence[tuple[int, int, int]]) -> list[Unit]:
    counts: Counter[int] = Counter()
    found = []
    for first, stop, kind in parts:
        if stop > first:
            found.append(Unit(first, stop, kind, counts[kind]))
            counts[kind] += 1
    return found
