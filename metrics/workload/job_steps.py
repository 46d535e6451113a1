"""Step times of the job, from step markers or from the iterations of an inference server.

vLLM names the numbers of requests and tokens in prefill (context) and in decode (generation):
``execute_context_1(888)_generation_0(0)``, with the sum of squared lengths after an underscore,
or ``execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)``. SGLang
marks ``run_batch`` without numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import mean, median, milliseconds
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.metrics.model.rank_steps import DECODE_LOOP, STAGES, Pass, Phase, Step, passes_of
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.parsers.numbers import time_text
from ccltui.parsers.window import ranges_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


RUNS_AHEAD: Final = 1.25
"""Multiple of the marker's length from which on the time of the devices contradicts it."""


class StepTimes(Struct, frozen=True):
    """Steps that every marking rank has, in order; ``slowest_ns`` is the maximum over ranks."""

    ids: tuple[int, ...]
    slowest_ns: tuple[int, ...]
    per_rank: Mapping[str, Mapping[int, Step]]
    reasons: tuple[Reason, ...]


def step_times(view: View) -> StepTimes:
    """Return the marker times of the selected steps.

    Raises:
        Refusal: No rank marks a step, or no step is marked on all ranks.
    """
    marked = {rank.label: {s.id: s for s in rank.steps} for rank in view.ranks if rank.steps}
    if not marked:
        known = sum(len(rank.facts.marked_steps[0]) for rank in view.ranks)
        if known:
            raise refuse("window_empty", f"none of the {known} step markers starts in the window")
        raise refuse("no_step_markers", "no ProfilerStep or other step marker on any rank")
    ids = set.intersection(*(set(steps) for steps in marked.values()))
    if not ids:
        raise refuse("no_step_markers", "no step is marked on all ranks")
    order = tuple(sorted(ids))
    slowest = tuple(max(steps[i].dur_ns for steps in marked.values()) for i in order)
    return StepTimes(order, slowest, marked, tuple(_gaps(view, marked, ids)))


def device_period_ns(view: View, times: StepTimes) -> float | None:
    """Return how long devices take for a step, in ns: from end to end of consecutive steps.

    It is the mean over steps of the longest of any rank; None without device work or with no two
    consecutive steps. Collectives end on all ranks at once and begin on each at another time: from
    first work to first work a late rank would count in one step, and those that wait in the next.
    """
    periods: dict[int, int] = {}
    wanted = set(times.ids)
    for rank in view.ranks:
        if not rank.facts.has_device:
            continue
        ends = {step: end for step, _, end in rank.work_windows if step in wanted}
        for step, end in ends.items():
            if step - 1 in ends:
                periods[step] = max(periods.get(step, 0), end - ends[step - 1])
    return mean(list(periods.values()))


def warnings_of_markers(view: View, times: StepTimes) -> list[str]:
    """Return a warning where markers are shorter than what the devices take for a step.

    A host that waits for nothing is done with a step long before its device: over a few steps
    nothing limits how far it gets ahead.
    """
    marked, period = mean(times.slowest_ns), device_period_ns(view, times)
    if marked is None or period is None or period <= RUNS_AHEAD * marked:
        return []
    return [
        f"the markers last {time_text(marked / 1e6)}, and device work of a step takes "
        f"{time_text(period / 1e6)}: the hosts run ahead of their devices, and a step takes longer "
        "than its marker"
    ]


def _gaps(view: View, marked: Mapping[str, Mapping[int, Step]], common: set[int]) -> list[Reason]:
    """Reasons for ranks that mark no step, or steps that other ranks do not mark."""
    reasons = [
        Reason("no_step_markers", f"rank {rank.label} marks no step", rank=rank.label)
        for rank in view.ranks
        if rank.label not in marked
    ]
    for label, steps in marked.items():
        extra = sorted(set(steps) - common)
        if extra:
            one = len(extra) == 1
            named = f"step {extra[0]}" if one else f"steps {ranges_text(extra)}"
            verb = "is" if one else "are"
            text = f"{named} of rank {label} {verb} not on every rank and {verb} left out"
            reasons.append(Reason("no_step_markers", text, rank=label))
    return reasons


_TOKENS = re.compile(
    r"execute_context_(\d+)\((\d+)(?:_(\d+))?\)_generation_(\d+)\((\d+)(?:_(\d+))?\).*"
)
_LENGTHS = re.compile(
    r"execute_\d+_context_(\d+)\(sq(\d+)sk\d+sqsq\d+sqsk(\d+)\)"
    r"_generation_(\d+)\(sq(\d+)sk\d+sqsq\d+sqsk(\d+)\).*"
)
_UNNAMED = re.compile(r"run_batch\b.*|execute_(?:\d+_)?context_\d.*")
_STAGE = re.compile(r"step\[([A-Z_]+)\b[^\]]*\]")  # step[DECODE bs=32] of SGLang


class Batch(Struct, frozen=True):
    """Contents of an iteration by its name; None where the name does not contain a number.

    ``tokens`` are the new tokens. ``pairs``, query length times key length summed over requests, is
    proportional to the cost of attention.
    """

    phase: Phase
    tokens: int | None = None
    pairs: int | None = None


class Iteration(Struct, frozen=True):
    """One iteration: its time on the device where recorded, else that of its marker, in ns."""

    start_ns: int
    dur_ns: int
    batch: Batch
    on_device: bool


def batch_of(name: str) -> Batch | None:
    """Parse the name of a range; None where it is no iteration of a server."""
    for pattern in (_TOKENS, _LENGTHS):
        found = pattern.fullmatch(name)
        if found is not None:
            return _batch([-1 if part is None else int(part) for part in found.groups()])
    stage = _STAGE.fullmatch(name)
    if stage is not None:
        return Batch(STAGES.get(stage[1], "unknown"))
    return Batch("unknown") if _UNNAMED.fullmatch(name) else None


def _batch(numbers: list[int]) -> Batch:
    """Batch of requests, tokens and pairs in prefill, then the same in decode; -1 is unknown."""
    prefills, new, new_pairs, decodes, generated, pairs = numbers
    if prefills and decodes:
        return Batch("mixed", new + generated)
    phase: Phase = "prefill" if prefills else "decode" if decodes else "unknown"
    tokens, cost = (new, new_pairs) if prefills else (generated, pairs)
    return Batch(phase, tokens, None if cost < 0 else cost)


def iterations_of(rank: RankView) -> list[Iteration]:
    """Return the iterations that the rank's view selects, in order of time.

    Where no range marks any, those of the decode loop are.
    """
    if rank.facts.marked_steps[1] == DECODE_LOOP:
        return _unmarked(rank)
    events = rank.trace.group("annotations")
    named = {i: batch for i in distinct(events.name) if (batch := batch_of(rank.trace.text(i)))}
    if len({_is_stage(rank.trace.text(i)) for i in named}) == 2:  # a pass is marked twice
        named = {i: batch for i, batch in named.items() if not _is_stage(rank.trace.text(i))}
    rows = np.flatnonzero(any_name(rank.trace.strings, events.name, list(named)))
    rows = rows[(events.dur_ns[rows] > 0) & rank.contains(events.start_ns[rows])]
    found = []
    for row in rows.tolist():
        start, end = int(events.start_ns[row]), int(events.end_ns[row])
        device = _device_time(rank, start, end)
        begin, length = (start, end - start) if device is None else device
        batch = named[int(events.name[row])]
        found.append(Iteration(begin, length, batch, device is not None))
    return found


def _is_stage(name: str) -> bool:
    return _STAGE.fullmatch(name) is not None


def passes_without_marker(rank: RankView) -> tuple[Pass, ...]:
    """Return all passes of the decode loop; empty where the passes of a rank are marked."""
    facts = rank.facts
    if facts.marked_steps[1] != DECODE_LOOP:
        return ()
    key = passes_without_marker
    return facts.remember(key, lambda: passes_of(facts.trace, facts.launched_ns))


def longer_by_nature(rank: RankView) -> frozenset[int]:
    """Return the ids of marked steps that are passes with prefill, where others are of decode."""
    events = rank.trace.group("annotations")
    named = {i: batch for i in distinct(events.name) if (batch := batch_of(rank.trace.text(i)))}
    if not any(batch.phase == "decode" for batch in named.values()):
        return frozenset()
    long = [i for i, batch in named.items() if batch.phase in ("prefill", "mixed")]
    starts = set(events.start_ns[any_name(rank.trace.strings, events.name, long)].tolist())
    return frozenset(step.id for step in rank.facts.marked_steps[0] if step.start_ns in starts)


def _unmarked(rank: RankView) -> list[Iteration]:
    """Return the passes of the decode loop that the rank's view selects."""
    passes = passes_without_marker(rank)
    inside = rank.contains(np.array([one.start_ns for one in passes], np.int64))
    found = []
    for one in itertools.compress(passes, inside.tolist()):
        device = _device_time(rank, one.start_ns, one.end_ns)
        if device is not None:
            found.append(Iteration(*device, Batch(one.phase), on_device=True))
    return found


def _device_time(rank: RankView, start_ns: int, end_ns: int) -> tuple[int, int] | None:
    """Start and length of the device work that was launched in a range, None without any."""
    launched, gpu = rank.facts.launched_ns, rank.trace.group("gpu")
    rows = np.flatnonzero((launched >= start_ns) & (launched < end_ns))
    if not len(rows):
        return None
    first, last = int(gpu.start_ns[rows].min()), int(gpu.end_ns[rows].max())
    return first, last - first


def with_guessed_phases(iterations: list[Iteration]) -> list[tuple[Phase, Iteration]]:
    """Return each iteration with its phase; if no name has one, prefill first and decode after."""
    if any(one.batch.phase != "unknown" for one in iterations):
        return [(one.batch.phase, one) for one in iterations]
    return [("prefill" if i == 0 else "decode", one) for i, one in enumerate(iterations)]


PROXY_WARNING: Final = (
    "a proxy from the trace alone: it does not include queueing, chunked prefill and requests "
    "that join or leave a batch"
)


class ReplicaPasses(Struct, frozen=True):
    """Passes of one replica; times are medians over its ranks and passes, in ns.

    Attributes:
        replica: Its name.
        ranks: Labels of its ranks.
        decode_ns: From the first work of a decode pass to that of the pass after it; None where no
            two passes follow one another.
        prefill_ns: Device work of a prefill pass; None without one.
        prefills: Number of prefill passes of a rank.
    """

    replica: str
    ranks: tuple[str, ...]
    decode_ns: float | None
    prefill_ns: float | None
    prefills: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form, in ms."""
        return {
            "replica": self.replica,
            "ranks": list(self.ranks),
            "decode_period_ms": None if self.decode_ns is None else milliseconds(self.decode_ns),
            "prefill_ms": None if self.prefill_ns is None else milliseconds(self.prefill_ns),
        }


def replicas_of(view: View) -> list[ReplicaPasses]:
    """Return the passes of each replica, empty where the job has none."""
    names = list(dict.fromkeys(rank.trace.replica for rank in view.ranks))
    if names in ([], [""]):
        return []
    return [_passes(name, [r for r in view.ranks if r.trace.replica == name]) for name in names]


def _passes(name: str, ranks: list[RankView]) -> ReplicaPasses:
    periods: list[int] = []
    prefills: list[int] = []
    most = 0
    for rank in ranks:
        found = iterations_of(rank)
        periods += [
            after.start_ns - one.start_ns
            for one, after in pairwise(found)
            if one.batch.phase == "decode" and one.on_device and after.on_device
        ]
        own = [one.dur_ns for one in found if one.batch.phase == "prefill"]
        prefills += own
        most = max(most, len(own))
    return ReplicaPasses(
        name,
        tuple(rank.label for rank in ranks),
        median(periods) if periods else None,
        median(prefills) if prefills else None,
        most,
    )
