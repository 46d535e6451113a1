"""A job as lines of work that can be replayed: the input of slowdown and verdict.

One kernel that sends and receives ends a pass and begins the next one: as two calls of the same
time it is replayed as such transfers are that have a kernel each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, extremes_by, median_along
from ccltui.metrics.collectives.clocks.clock_model import RESIDUALS
from ccltui.metrics.collectives.matching.match import (
    RECV,
    SEND,
    SENDRECV,
    GroupMatch,
    Matches,
    MatchInput,
    Pairs,
    match_p2p,
)
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.replay.lines.call_table import (
    Along,
    CallTable,
    JoinedCalls,
    Segments,
    Whole,
    call_table,
    is_receive,
    is_send,
)
from ccltui.metrics.findings.replay.lines.line_operations import (
    Operations,
    UnitTable,
    blocks,
    line_operations,
)
from ccltui.metrics.findings.replay.lines.pass_units import (
    BACKWARD_PASS,
    FORWARD_PASS,
    kernel_labels,
)
from ccltui.metrics.findings.replay.lines.shared_positions import Program, positions
from ccltui.metrics.findings.replay.lines.stage_order import (
    BACKWARD,
    FORWARD,
    Stages,
    stages_of,
    told_by_passes,
)
from ccltui.metrics.findings.replay.lines.step_lines import (
    Implied,
    Kernels,
    StepLines,
    begun_too_early,
    calls_between,
    implied_steps,
    kernel_starts,
    kernels_at,
    step_lines,
)
from ccltui.metrics.findings.replay.lines.step_replay import StepReplay
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.data_quality import ranks_of
from ccltui.parsers.array_types import F64, I64, Bool

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View


class LinkedCalls(NamedTuple):
    """Calls of each rank, matched collectives and pairs of transfers, which index these calls."""

    inputs: Sequence[MatchInput]
    matches: Matches
    pairs: Pairs


def linked_calls(view: View) -> LinkedCalls:
    """Return the calls of a view: those that it has where none is a batch, else copies."""
    inputs = view.match_inputs
    batches = [(item.calls.kind == SENDRECV) & (item.calls.dst >= 0) for item in inputs]
    if not any(one.any() for one in batches):
        return LinkedCalls(inputs, view.matches, view.pairs)
    separate = [_separate(item, one) for item, one in zip(inputs, batches, strict=True)]
    moved = {
        item.label: np.cumsum(1 + one) - (1 + one)
        for item, one in zip(inputs, batches, strict=True)
    }
    groups = tuple(_moved(match, moved) for match in view.matches.groups)
    matches = replace(view.matches, groups=groups)
    return LinkedCalls(separate, matches, match_p2p(separate, view.groups))


def _separate(item: MatchInput, batch: Bool) -> MatchInput:
    """Return the calls of a rank with a send and a receive for each batch."""
    source = np.repeat(np.arange(len(batch)), 1 + batch)
    calls, both = item.calls.take(source), batch[source]
    second = both & (np.diff(source, prepend=-1) == 0)
    kind = np.where(both, np.where(second, RECV, SEND), calls.kind).astype(calls.kind.dtype)
    own = -1 if item.rank is None else item.rank
    src, dst = np.where(both & ~second, own, calls.src), np.where(second, own, calls.dst)
    return replace(item, calls=replace(calls, kind=kind, src=src, dst=dst))


def _moved(match: GroupMatch, moved: dict[str, I64]) -> GroupMatch:
    columns = [
        np.where(column >= 0, moved[label][np.maximum(column, 0)], column)
        for label, column in zip(match.labels, match.rows.T, strict=True)
    ]
    return replace(match, rows=np.stack(columns, axis=1))


MIN_TOLERANCE_NS: Final = 20_000
"""Two ranks, or a call and a kernel, may be recorded apart by this much."""

UNMARKED: Final = "not marked"
"""How the basis begins where steps are none of the profiler's."""

_CALLS: Final = 1 << 16
"""Calls that are looked at together: their columns fit into a cache."""

_TRANSFERS: Final = [TYPES.index(name) for name in ("Send", "Recv", "SendRecv")]
_ENDS: Final = ("origin_ns", "end_ns")


class JobLines(Struct, frozen=True, dict=True):
    """The lines of all ranks that can be compared.

    ``partly`` are the steps that are left out because some ranks recorded only a part of their
    calls. ``labels`` and ``hosts`` are by rank; ``out`` gives the ranks that are left out, with the
    reason. ``origin_ns`` and ``end_ns`` are by line, on the common clock where there is one
    (``has_clock``), else on that of each rank, as ``own_origin_ns`` and ``own_end_ns`` always are.
    """

    labels: tuple[str, ...]
    hosts: tuple[str, ...]
    out: dict[str, str]
    table: CallTable
    stages: Stages
    programs: tuple[Program, ...]
    units: UnitTable
    operations: Operations
    origin_ns: I64
    end_ns: I64
    own_origin_ns: I64
    own_end_ns: I64
    has_clock: bool
    marked: bool
    partly: tuple[int, ...] = ()

    @cached_property
    def replay(self) -> StepReplay:
        """The replay; raises DeadlockError where the lines wait for each other."""
        return StepReplay(self.table, self.operations)

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return len(self.table.step_ids)

    @property
    def period(self) -> str:
        """What the times are those of: "a step", or "the window" where nothing divides it."""
        # Neither markers nor calls that recur.
        return "the window" if self.table.step_ids.tolist() == [-1] else "a step"

    @property
    def step_basis(self) -> str:
        """What counts as a step."""
        if self.marked:
            return "from the end of the previous step; the first step from its first work"
        if self.num_steps > 1:
            return f"{UNMARKED}: from one occurrence of a repeating call to the next"
        return f"{UNMARKED}: the whole recording counts as one step"

    @cached_property
    def unit_ns(self) -> F64:
        """Compute time of each unit as recorded, float64."""
        first, found = self.operations.first, np.zeros(len(self.units))
        for lines in blocks(np.arange(self.table.num_lines)):
            here = slice(int(first[lines.start]), int(first[lines.stop]))
            units = slice(int(self._first_unit[lines.start]), int(self._first_unit[lines.stop]))
            found[units] = self._summed(here, units, self.operations.compute_ns[here])
        return found

    @cached_property
    def profile_ns(self) -> F64:
        """Typical compute time of each unit: sum of those of its segments, float64."""
        first, found = self.operations.first, np.zeros(len(self.units))
        for one, typical in zip(self.programs, self.operations.profile_ns, strict=True):
            line = int(one.lines[0])  # the segments of all lines are of the same units
            here = slice(int(first[line]), int(first[line + 1]))
            units = slice(int(self._first_unit[line]), int(self._first_unit[line + 1]))
            places = self._first_unit[one.lines][:, np.newaxis]
            places = places + np.arange(units.stop - units.start)
            found[places] = self._summed(here, units, typical)
        return found

    @cached_property
    def _first_unit(self) -> I64:
        """First unit of each line, and the number of all."""
        return np.searchsorted(self.units.line, np.arange(self.table.num_lines + 1))

    def _summed(self, here: slice, units: slice, segment_ns: Whole | F64) -> F64:
        """Sum times of the segments of whole lines by unit."""
        place = np.maximum(self.operations.unit[here] - (units.start - 1), 0)
        found = np.bincount(place, segment_ns, units.stop - units.start + 1)
        return np.asarray(found[1:], np.float64)

    def segment_times(self, target_ns: F64) -> Segments:
        """Divide a time of each unit among its segments as it is typical of its program."""
        whole = self.profile_ns
        if ((target_ns > 0) & (whole <= 0)).any():
            return self.segments(target_ns)
        profiles = self.operations.profile_ns
        edges = np.cumsum([0, *(len(one) for one in profiles)])
        scale = self._scale(target_ns)
        return Along(np.concatenate(profiles), edges, self.program_of_line, scale)

    def _scale(self, target_ns: F64) -> F64:
        """Time of each unit over the typical one, 0 of what is typically empty and of none."""
        whole = self.profile_ns
        return np.append(np.where(whole > 0, target_ns / np.where(whole > 0, whole, 1), 0), 0)

    def segments(self, target_ns: F64) -> F64:
        """Return the same as numbers of all lines; units that are typically empty have theirs."""
        whole = self.profile_ns
        found: F64 = self._scale(target_ns).take(self.operations.unit, mode="wrap")
        first = self.operations.first
        for one, typical in zip(self.programs, self.operations.profile_ns, strict=True):
            for lines in (one.lines[rows] for rows in blocks(one.lines)):
                here = found[first[lines[0]] : first[lines[-1] + 1]]
                here.reshape(len(lines), len(typical))[:] *= typical
        spread = np.where(whole > 0, 0, target_ns)
        last = self._last_segment
        rest = np.flatnonzero((spread > 0) & (last >= 0))
        found[last[rest]] += spread[
            rest
        ]  # a unit that is typically empty keeps its time at its end
        return found

    @cached_property
    def _last_segment(self) -> I64:
        """Last segment of each unit, -1 for none."""
        unit = self.operations.unit
        held = np.flatnonzero(unit >= 0)
        found = np.full(len(self.units), -1)
        found[unit[held]] = held
        return found

    @cached_property
    def uncounted(self) -> float:
        """Passes of pipeline stages that are too many or too few, as a share of their transfers.

        A pass of a direction is fed by a receive or ends with a send, on most stages both.
        """
        table = self.table
        if self.stages.count < 2:
            return 0.0
        staged = self.stages.stage[table.rank] >= 0
        wrong = whole = 0
        for towards, kind in ((FORWARD, FORWARD_PASS), (BACKWARD, BACKWARD_PASS)):
            ours = table.direction == towards
            sent, received = (
                np.bincount(table.line[ours & side], minlength=table.num_lines)
                for side in (is_send(table), is_receive(table))
            )
            passes = np.bincount(
                self.units.line[self.units.type == kind], minlength=table.num_lines
            )
            expected = np.maximum(sent, received)
            wrong += int(np.abs(passes - expected)[staged].sum())
            whole += int(expected[staged].sum())
        return wrong / max(whole, 1)

    @cached_property
    def unknown_transfers(self) -> float:
        """Share of the calls that are sends or receives without a known other side.

        A kernel of sends and receives that three ranks or more share is an all-to-all. Ranks of one
        stage, or of none, pass data around.
        """
        table = self.table
        sizes = np.bincount(table.instance[table.instance >= 0], minlength=len(table.transfer_ns))
        members = np.append(sizes, 0)[table.instance]
        unknown = np.isin(table.kind, _TRANSFERS) & (table.direction == 0) & (members < 3)
        stage, pair = self.stages.stage, table.pair
        around = (pair[:, 0] >= 0) & (stage[pair[:, 0]] == stage[pair[:, 1]])
        unknown &= ~np.append(around, False)[table.instance]
        return float(unknown.mean()) if len(unknown) else 0.0

    @cached_property
    def program_of_line(self) -> I64:
        """Program of each line."""
        found = np.empty(self.table.num_lines, np.int64)
        for number, one in enumerate(self.programs):
            found[one.lines] = number
        return found

    @cached_property
    def worker(self) -> I64:
        """Rank of each unit."""
        return self.table.rank[self.units.line]

    @cached_property
    def step(self) -> I64:
        """Step index of each unit."""
        return self.table.step[self.units.line]

    @cached_property
    def begin_ns(self) -> F64:
        """Begin of each line after the begin of its step, as recorded: 0 without common clock."""
        if not self.has_clock:
            return np.zeros(self.table.num_lines)
        begin = (self.origin_ns - self._step_origin[self.table.step]).astype(np.float64)
        return np.where(self._opens_with_others, 0.0, begin)

    @cached_property
    def _opens_with_others(self) -> Bool:
        """Lines of first steps that begin with a call which all its members began together.

        Where the waits of a call are in no kernel, its other members tell when such a line begins.
        """
        table, count = self.table, len(self.table.transfer_ns)
        longest = extremes_by(table.dur_ns, table.instance, count)[1][:-1]
        # The last one is that of calls in no instance.
        together = np.append(longest - table.transfer_ns <= MIN_TOLERANCE_NS, False)
        found = np.zeros(table.num_lines, np.bool_)
        for begin in range(0, len(table.line), _CALLS):
            here = slice(begin, begin + _CALLS)
            line = table.line[here]
            opens = table.start_ns[here] <= self.operations.begun_ns[line]
            found[line[opens & together[table.instance[here]]]] = True
        return found & ~self._follows[table.step]

    @cached_property
    def _step_origin(self) -> I64:
        """Begin of each step: latest end of the one before, of a first one its earliest start."""
        count, step = self.num_steps, self.table.step
        ends = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(ends, step, self.end_ns)
        begins = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(begins, step, self.origin_ns)
        return np.where(self._follows, np.concatenate(([0], ends[:-1])), begins)

    @property
    def _follows(self) -> Bool:
        """Steps behind one that is here too."""
        steps = self.table.step_ids
        return np.asarray(np.diff(steps, prepend=steps[0] - 2) == 1)

    @cached_property
    def together(self) -> list[I64]:
        """Ranks that collectives and transfers connect to each other."""
        return self._connected(self.table.instance >= 0)

    @cached_property
    def pipelines(self) -> list[I64]:
        """Ranks that transfers connect to each other."""
        is_pair = np.append(self.table.pair[:, 0] >= 0, False)
        return self._connected(is_pair[self.table.instance])

    def _connected(self, calls: Bool) -> list[I64]:
        """Sets of ranks that the calls in a mask connect to each other; each is in one instance."""
        table = self.table
        linked = slice(None) if calls.all() else np.flatnonzero(calls)
        rank = table.rank.astype(np.int32).take(table.line[linked])
        instance = table.instance[linked]
        label = np.arange(len(self.labels), dtype=np.int32)
        while True:
            lowest = np.full(len(table.transfer_ns), len(label), np.int32)
            np.minimum.at(lowest, instance, label[rank])
            changed = label.copy()
            np.minimum.at(changed, rank, lowest[instance])
            if np.array_equal(changed, label):
                break
            label = changed
        here = distinct_values(table.rank)
        return [here[label[here] == one] for one in distinct_values(label[here])]

    @cached_property
    def measured_ns(self) -> F64:
        """Length of each step, float64 ns.

        From the end of the step before over ranks, of a first step from its first work. Without a
        common clock the median over the ranks of the same on each, the longest of sets of ranks
        that never wait for each other: those that do have the same in the mean.
        """
        step = self.table.step
        length = (self.end_ns - self.origin_ns).astype(np.float64)
        if not self.has_clock:
            first = ~self._follows
            found = np.zeros(self.num_steps)
            for ranks in self.together:
                mine = np.isin(self.table.rank, ranks)
                for i in range(self.num_steps):
                    typical = np.max if first[i] else median_along
                    found[i] = max(found[i], typical(length[mine & (step == i)]))
            return found
        ends = np.full(self.num_steps, np.iinfo(np.int64).min)
        np.maximum.at(ends, step, self.end_ns)
        return (ends - self._step_origin).astype(np.float64)


def job_lines(view: View) -> JobLines:
    """Return the lines of all ranks of a job, over the steps that the view selects.

    Raises:
        Refusal: fewer than two ranks have device work that can be compared.
    """
    found: JobLines = view.remember(job_lines, lambda: _job_lines(view))
    return found


_MOST_REASONS: Final = 4
"""Reasons that one sentence lists."""


def _reasons_of_ranks(out: Mapping[str, str]) -> str:
    """Return why ranks are left out, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for label, text in out.items():
        by_reason.setdefault(text, []).append(label)
    return "; ".join(
        f"{ranks_of(labels)}: {text}" for text, labels in list(by_reason.items())[:_MOST_REASONS]
    )


@fact("lines")
def _job_lines(view: View) -> JobLines:
    linked = linked_calls(view)
    inputs, out = linked.inputs, dict(view.matches.skipped)
    for item in inputs:
        facts = view.facts.ranks[item.label]
        if facts.has_wrong_clock:
            out[item.label] = "device events have no times"
        elif item.label not in out and not facts.has_kernels:
            out[item.label] = "no kernel is recorded"
        elif item.label not in out and item.calls.event_group != "gpu" and len(item.calls):
            out[item.label] = "collectives are recorded on the host only"
    if len(inputs) - len(out) < 2:
        why = _reasons_of_ranks(out)
        raise refuse("no_gpu_events", f"device work of two ranks or more is needed; {why}")
    out |= _without_steps(view, [item for item in inputs if item.label not in out])
    here = [item.label for item in inputs if item.label not in out]
    marked = all(view.facts.ranks[label].marked_steps[0] for label in here)
    every = frozenset(step.id for rank in view.ranks for step in rank.steps)
    chosen = every if marked else None
    ends, partly = None, set[int]()
    if not marked:
        starts = [kernel_starts(view.facts.ranks[label]) for label in here]
        found = implied_steps([one.calls for one in inputs if one.label not in out], starts)
        ends = None if found is None else dict(zip(here, found, strict=True))
    implied = None if ends is None else _implied(linked, ends)
    lines, calls = _lines(view, linked, chosen, out, implied)
    if marked:
        shared = _shared_steps(lines)
        if not shared:
            raise refuse("no_step_markers", "no step is recorded on all ranks")
        partly = _partly_recorded(lines, shared)
        partly = partly if shared - partly else set()
        everything = {step for one in lines for step in one.steps.tolist()}
        shared -= partly
        partly = everything - shared
        if any(set(one.steps.tolist()) != shared for one in lines if len(one.steps)):
            del lines, calls
            lines, calls = _lines(view, linked, frozenset(shared), out)
    job = _assembled(view, linked, lines, calls, out, marked=marked)
    return replace(job, partly=tuple(sorted(partly))) if partly else job


def _tolerance_ns(view: View) -> int:
    """How far apart two ranks, or a call and a kernel, may be recorded."""
    return max(MIN_TOLERANCE_NS, view.clocks.residual_p95_ns or 0)


def _rounding_ns(view: View, inputs: Sequence[MatchInput]) -> int:
    """How far apart a call without a launch record and a kernel may be recorded.

    Clocks that fit exactly say nothing of times that the source rounds: sends that begin just
    before the end of their pass do.
    """
    return view.remember(_rounding_ns, lambda: _rounding_of(view, inputs))


def _rounding_of(view: View, inputs: Sequence[MatchInput]) -> int:
    known = max(MIN_TOLERANCE_NS, RESIDUALS * (view.clocks.residual_p95_ns or 0))
    for item in inputs:
        facts = view.facts.ranks[item.label]
        if facts.has_kernels:
            known = max(known, int(begun_too_early(facts, item.calls).max(initial=0)))
        if view.facts.is_large:
            facts.forget_intervals()
    return known


def _without_steps(view: View, inputs: Sequence[MatchInput]) -> dict[str, str]:
    """Ranks that recorded too little to hold a step, where others mark theirs, and why.

    With them the steps of the others could not be told apart.
    """
    marked = {one.label: len(view.facts.ranks[one.label].marked_steps[0]) for one in inputs}
    counts = {one.label: len(one.calls) for one in inputs}
    whole = [label for label in marked if marked[label]]
    if len(whole) < 2:
        return {}
    a_step = median_along([counts[label] / marked[label] for label in whole])
    return {
        label: "its recording contains no whole step"
        for label in marked
        if not marked[label] and counts[label] < a_step
    }


def _lines(
    view: View,
    linked: LinkedCalls,
    chosen: frozenset[int] | None,
    out: Mapping[str, str],
    implied: Mapping[str, Implied] | None = None,
) -> tuple[list[StepLines], JoinedCalls]:
    found = []
    joined = JoinedCalls(sum(len(item.calls) for item in linked.inputs if item.label not in out))
    for item in linked.inputs:
        if item.label in out:
            found.append(StepLines.empty())
            joined.add_none()
            continue
        facts = view.facts.ranks[item.label]
        mine = None if implied is None else implied[item.label]
        rounding_ns = _rounding_ns(view, linked.inputs)
        lines, calls = step_lines(facts, item.calls, chosen, mine, rounding_ns)
        found.append(lines)
        joined.add(calls, len(lines.steps))
        if view.facts.is_large:
            facts.forget_intervals()
    return found, joined


OUTSIDE: Final = -2
"""Step of a call of a rank without steps."""


def _implied(linked: LinkedCalls, ends: Mapping[str, I64]) -> dict[str, Implied]:
    """Return the steps of ranks that no marker divides, with both sides of transfers in one.

    A send that waits behind others for its receiver begins after the step that feeds it, or with
    the call that ends it; a receive that is posted ahead begins before the step that it is for,
    and ends in it.

    Args:
        linked: the calls.
        ends: rows of the calls that end the steps of each rank.
    """
    inputs, _, pairs = linked
    first = np.cumsum([0, *(len(item.calls) for item in inputs)])
    begun, ended = np.full((2, first[-1]), OUTSIDE)
    for index, item in enumerate(inputs):
        if item.label in ends:
            here, mine = slice(first[index], first[index + 1]), ends[item.label]
            begun[here] = calls_between(item.calls, mine)
            ended[here] = np.searchsorted(item.calls.end_ns[mine], item.calls.end_ns) - 1
    sent = first[pairs.sender] + pairs.send_row
    received = first[pairs.receiver] + pairs.recv_row
    known = (begun[sent] > OUTSIDE) & (begun[received] > OUTSIDE)
    sent, received = sent[known], received[known]
    is_ahead = (begun[received] == begun[sent] - 1) & (ended[received] == begun[sent])
    begun[received[is_ahead]] += 1
    is_late = begun[sent] == begun[received] + 1
    begun[sent[is_late]] -= 1
    return {
        item.label: Implied(ends[item.label], begun[first[index] : first[index + 1]])
        for index, item in enumerate(inputs)
        if item.label in ends
    }


def _partly_recorded(lines: Sequence[StepLines], shared: set[int]) -> set[int]:
    """Steps in which some ranks, and not all, have fewer calls than in most of their steps."""
    counted = [
        dict(zip(one.steps.tolist(), one.num_calls, strict=True)) for one in lines if len(one.steps)
    ]
    usual = [median_along([count[step] for step in shared]) for count in counted]
    fewer = {
        step: [count[step] < most for count, most in zip(counted, usual, strict=True)]
        for step in shared
    }
    return {step for step, ranks in fewer.items() if any(ranks) and not all(ranks)}


def _shared_steps(lines: Sequence[StepLines]) -> set[int]:
    steps = [set(one.steps.tolist()) for one in lines]
    return set.intersection(*(one for one in steps if one)) if any(steps) else set()


def _assembled(
    view: View,
    linked: LinkedCalls,
    lines: Sequence[StepLines],
    calls: JoinedCalls,
    out: dict[str, str],
    *,
    marked: bool,
) -> JobLines:
    (inputs, matches, pairs), clocks = linked, view.clocks
    steps = _call_steps(inputs, lines, calls) if len(pairs) else []
    stages = stages_of(inputs, pairs, view.groups, steps)
    labels = cache(lambda rank: kernel_labels(view.facts.ranks[inputs[rank].label]))
    facts = [None if item.label in out else view.facts.ranks[item.label] for item in inputs]
    stages = told_by_passes(stages, pairs, list(zip(inputs, lines, facts, strict=True)), labels)
    table = call_table((lines, calls), inputs, (matches, pairs), stages, view.groups)
    sizes = np.concatenate([one.stop - one.first for one in lines])
    found = positions(table, sizes, stages.stage)
    units, operations = line_operations(
        lines,
        table,
        found,
        stages.count,
        lambda rank: _kernels(view, inputs[rank].label, lines[rank]),
        tolerance_ns=_tolerance_ns(view),
        rounding_ns=_rounding_ns(view, inputs),
        label_of=labels,
        lead_of=None if view.facts.is_large else lambda: _leads(inputs, facts, table),
    )
    here = [item.label for item, one in zip(inputs, lines, strict=True) if len(one.steps)]
    has_clock = clocks.comparable(here)

    def on_clock(times: Sequence[I64]) -> I64:
        if not has_clock:
            return np.concatenate(times)
        return np.concatenate(
            [clocks.corrected(item.label, one) for item, one in zip(inputs, times, strict=True)]
        )

    origin, end = (on_clock([getattr(one, name) for one in lines]) for name in _ENDS)
    if has_clock and not _one_step_apart(table.step, end, end - origin):
        has_clock = False  # ranks of one host need not have one clock
        origin, end = (on_clock([getattr(one, name) for one in lines]) for name in _ENDS)
    return JobLines(
        labels=tuple(item.label for item in inputs),
        hosts=tuple(item.host for item in inputs),
        out=out,
        table=table.without_positions(),
        stages=stages,
        programs=found.programs,
        units=units,
        operations=operations,
        origin_ns=origin,
        end_ns=end,
        own_origin_ns=np.concatenate([one.origin_ns for one in lines]),
        own_end_ns=np.concatenate([one.end_ns for one in lines]),
        has_clock=has_clock,
        marked=marked,
    )


def _kernels(view: View, label: str, lines: StepLines) -> Kernels:
    """Return the kernels of a rank on its lines."""
    facts = view.facts.ranks[label]
    found = kernels_at(facts, lines.gpu_row)
    if view.facts.is_large:
        facts.forget_intervals()
    return found


def _leads(
    inputs: Sequence[MatchInput], facts: Sequence[RankFacts | None], table: CallTable
) -> I64:
    """Return how long before its begin each call was launched, int64 ns, -1 where not known."""
    found = np.full(len(table.line), -1, np.int64)
    rank = table.rank[table.line]
    for index, (item, one) in enumerate(zip(inputs, facts, strict=True)):
        mine = np.flatnonzero(rank == index)
        if one is None or not len(mine) or item.calls.event_group != "gpu":
            continue
        rows = table.row[mine]
        launched = one.launched_ns.take(item.calls.rows.of("gpu")[rows])
        known = launched > np.iinfo(np.int64).min
        found[mine[known]] = np.maximum(item.calls.start_ns[rows] - launched, 0)[known]
    return found


def _one_step_apart(step: I64, end: I64, length: I64) -> bool:
    """Whether the ranks end a step less than the length of one apart."""
    count = int(step.max()) + 1
    last, first = np.full(count, np.iinfo(np.int64).min), np.full(count, np.iinfo(np.int64).max)
    np.maximum.at(last, step, end)
    np.minimum.at(first, step, end)
    return bool((last - first).max() <= median_along(length))


def _call_steps(
    inputs: Sequence[MatchInput], lines: Sequence[StepLines], calls: JoinedCalls
) -> list[I64]:
    """Step of each call of each rank, -1 for those on no line."""
    steps, found = np.concatenate([one.steps for one in lines]), []
    for item, here in zip(inputs, pairwise(calls.first), strict=True):
        of_rank = np.full(len(item.calls), -1, np.int64)
        of_rank[calls.row[slice(*here)]] = steps[calls.line[slice(*here)]]
        found.append(of_rank)
    return found
