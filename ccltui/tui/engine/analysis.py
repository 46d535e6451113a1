"""Findings of a job in stages, and answers to the queries of panes, for the explorer.

Lanes, steps and communicators come first, then one metric after another. All numbers come from the
metrics' view of the job; here they only change their shape. Runs in a thread or in the server
process.

Columns are mapped from the store, and arrays of the server process from its file: their pages
come back from the page cache at the next access, so none needs to stay. Freed arrays below the C
library's threshold stay in its heap until ``malloc_trim`` is called.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from ccltui.draw.timeline_chart import Lane, Minimap, Track
from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.sequence_diff import TooDifferentError
from ccltui.metrics.collectives.arrivals import GroupArrivals, drawn_floor
from ccltui.metrics.device.repetition import NoBlockError
from ccltui.metrics.findings.causes.cause_search import job_causes
from ccltui.metrics.findings.rank_time.partition import exposed_parts
from ccltui.metrics.metric import Metric
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers import numbers
from ccltui.parsers.array_types import I64, Bool
from ccltui.tui.engine.messages import Fact, FindingsReady
from ccltui.tui.engine.packed_findings import release_memory
from ccltui.tui.state.answers import Answered, Findings, Span, Step, ViewQuery
from ccltui.tui.state.communicator import (
    Communicator,
    calls_by_rank,
    groups_by_size,
    harm_by_rank,
    worst_first,
)
from ccltui.tui.state.query_kinds import of_traces
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.parsers.found_files import Capture


def nodes_of(view: View) -> dict[str, int]:
    """Number of the host of each rank, in order of their first ranks; without unnamed hosts."""
    known: dict[str, int] = {}
    hosts = {rank.label: rank.trace.host for rank in view.ranks if rank.trace.host}
    return {label: known.setdefault(host, len(known)) for label, host in hosts.items()}


def lanes_of(view: View) -> dict[str, Lane]:
    """Busy time of every chosen rank, whatever the window, by label."""
    return {
        rank.label: _lane(rank.label, rank.facts, view, rank.recorded_calls.event_group)
        for rank in view.ranks
    }


def _lane(label: str, facts: RankFacts, view: View, event_group: str) -> Lane:
    network, compute, copies = facts.busy
    if event_group != "gpu":  # no kernels: the collectives the host recorded
        calls = view.facts.named_calls[label]
        network = union(calls.start_ns, calls.end_ns)
    both = compute & network
    offset = view.offsets_ns.get(label, 0)
    lane = Lane(
        label, _track(compute), _track(network), _track(both), offset, copies=_track(copies)
    )
    drift_ppb = None if view.is_as_recorded else view.clocks.clocks[label].drift_ppb
    if drift_ppb is None:
        return lane
    return replace(lane, drift=drift_ppb / 1e9, drift_from_ns=view.clocks.reference_ns)


def with_waiting(lanes: Mapping[str, Lane], view: View) -> dict[str, Lane]:
    """Return lanes with the waiting and the bubble in their network time, whatever the window."""
    whole = view.with_options(window=None, steps=None, group=None)
    found = dict(lanes)
    for rank in whole.ranks:
        network, compute, copies = rank.facts.busy
        waiting, bubble = exposed_parts(whole, rank, network - (compute | copies))
        lane = found[rank.label]
        found[rank.label] = replace(lane, waiting=_track(waiting), bubble=_track(bubble))
    return found


def tracks_of(lanes: Mapping[str, Lane]) -> frozenset[str]:
    """Return the names of the tracks in which any of the lanes has work."""
    names = ("compute", "network", "both", "copies", "waiting", "bubble")
    return frozenset(
        name for name in names if any(len(getattr(one, name).start_ns) for one in lanes.values())
    )


def _track(busy: Intervals) -> Track:
    return Track.of(busy.start_ns, busy.end_ns)


def steps_of_job(view: View) -> tuple[Step, ...]:
    """Every step from its first start to its last end on any rank, in order of start."""
    extents: dict[int, tuple[int, int]] = {}
    for rank in view.ranks:
        marked = rank.facts.marked_steps[0]
        own = np.array([(step.start_ns, step.end_ns) for step in marked], np.int64).reshape(-1, 2)
        times = (view.on_job_clock(rank.label, own) - view.origin_ns).tolist()
        for step, (start, end) in zip(marked, times, strict=True):
            known = extents.get(step.id, (start, end))
            extents[step.id] = (min(known[0], start), max(known[1], end))
    steps = [Step(number, start, end) for number, (start, end) in extents.items()]
    return tuple(sorted(steps, key=lambda step: step.start_ns))


def span_of(view: View, chosen: ViewOptions, steps: tuple[Step, ...]) -> Span | None:
    """Return the time span of the timeline: the window or chosen steps, else all device work."""
    starts, ends = [], []
    for rank in view.ranks:
        extent = rank.facts.extent
        if len(extent):
            own = np.array([extent.start_ns[0], extent.end_ns[0]], np.int64)
            first, last = (view.on_job_clock(rank.label, own) - view.origin_ns).tolist()
            starts.append(first)
            ends.append(last)
    if not starts:
        return None
    start, end = min(starts), max(ends)
    if chosen.steps is not None:
        first, last = chosen.steps
        inside = [step for step in steps if first <= step.id <= last]
        start = min((step.start_ns for step in inside), default=start)
        end = max((step.end_ns for step in inside), default=end)
    if chosen.window is not None:
        start = start if chosen.window.start_ns is None else chosen.window.start_ns
        end = end if chosen.window.end_ns is None else chosen.window.end_ns
    return Span(start, max(end, start + 1))


def communicators_of(view: View, chosen: ViewOptions) -> tuple[Communicator, ...]:
    """Matched collectives of every communicator, the one with the most caused wait first."""
    # A first number is posted before this is imported.
    from ccltui.metrics.findings.causes.cause_search import (  # noqa: PLC0415
        starts_recording,
    )

    begin = starts_recording(job_causes(view))
    found = [_communicator(view, number, one) for number, one in enumerate(begin)]
    if chosen.limits_time:
        found = [item.take(_chosen_rows(item, chosen)) for item in found]
    for item in found:
        _ = item.heat, item.by_harm, item.first_ns  # computed here, not in the user's way
    return tuple(sorted(found, key=lambda item: -int(item.harm_ns.sum())))


def _chosen_rows(item: Communicator, chosen: ViewOptions) -> Bool:
    keep = np.ones(len(item), np.bool_)
    if chosen.window is not None:
        start, end = chosen.window.start_ns, chosen.window.end_ns
        keep &= True if start is None else item.first_ns >= start
        keep &= True if end is None else item.first_ns < end
    if chosen.steps is not None:
        keep &= (item.step >= chosen.steps[0]) & (item.step <= chosen.steps[1])
    return keep


def _communicator(view: View, number: int, begins: Bool) -> Communicator:
    group = view.arrivals.groups[number]
    match = group.match
    return Communicator(
        name="all ranks" if match.group < 0 else view.groups[match.group].label,
        labels=group.labels,
        start_ns=group.start_ns - view.origin_ns,
        dur_ns=group.dur_ns,
        present=match.rows >= 0,
        late_ns=group.late_ns,
        wait_ns=group.wait_ns,
        lag_ns=group.lag_ns,
        last=group.last,
        kind=TYPES,
        kind_id=match.kind,
        message_bytes=_message_bytes(view.facts.named_calls, group),
        step=match.step,
        confidence=group.confidence,
        begins=begins,
        number=number,
        row=np.arange(len(match.rows)),
        floor_ns=view.arrivals.floor_ns,
        drawn_ns=drawn_floor(view.arrivals.floor_ns),
        clock=clock_of(view, group.labels),
        group=match.group,
    )


def _message_bytes(calls: Mapping[str, Calls], group: GroupArrivals) -> I64:
    """Size of each collective as any of its members states it, -1 where none does."""
    rows = group.match.rows
    size = np.full(len(rows), -1, np.int64)
    for member, label in enumerate(group.labels):
        stated = calls[label].message_bytes
        known = (size < 0) & (rows[:, member] >= 0)
        size[known] = stated[rows[known, member]]
    return size


def clock_of(view: View, labels: Sequence[str]) -> str:
    """Describe how precisely times of these ranks compare, as text; "" for fewer than two ranks."""
    if len(labels) < 2:
        return ""
    if view.options.raw_clocks:
        return "raw clocks"
    residual = view.clocks.error_bar_ns
    if residual is None or not view.clocks.comparable(labels):
        return "clocks unknown"
    return f"clock ±{numbers.duration(residual)}"


def answer(view: View, scene: Scene, query: ViewQuery[Any]) -> Answered[Any]:
    """Return the answer, or the problem why there is none."""
    try:
        return Answered(query, query.answer(view, scene.findings))
    except (NoBlockError, TooDifferentError, Refusal) as error:
        return Answered(query, problem=str(error))
    except (re.error, KeyError, IndexError) as error:
        return Answered(query, problem=f"{type(error).__name__}: {error}")


FIRST_METRIC: Final = "coll_call_num"
"""The metric that needs least of a rank, so that a number is shown before any chart."""
MATCHING_METRIC: Final = "straggler_lag"
"""The metric that shows whether matched collectives are reliable; computed before the others."""
OVERVIEW_METRICS: Final = (
    "iter_time",
    "step_variability",
    "findings",
    "clock_offsets",
)
"""Metrics at the top of the Overview pane, the fast ones first."""


class Analyst:
    """Computes findings for one session at a time; a newer session reuses what stays valid."""

    def __init__(
        self,
        found: Callable[[], Mapping[str, Metric]] = of_traces,
        first: Callable[[], Metric | None] = lambda: find(FIRST_METRIC),
    ) -> None:
        self._found = found
        self._first = first
        self._lock = threading.Lock()
        self._view: View | None = None
        self._findings = Findings()
        self._ready: tuple[int, View] | None = None
        self._began = False

    def answer(self, scene: Scene, query: ViewQuery[Any]) -> Answered[Any] | None:
        """Answer a pane's query about the scene; None when the scene is no longer the newest."""
        # A first number is posted before this is imported.

        ready = self._ready
        if ready is None or ready[0] != scene.findings.generation:
            return None
        return answer(ready[1], scene, query)

    def answer_newest(self, generation: int, query: ViewQuery[Any]) -> Answered[Any] | None:
        """Answer a query about the newest findings; None when they are of another generation."""
        findings = self._findings
        if findings.generation != generation:
            return None
        return self.answer(Scene(Session(""), findings=findings), query)

    def prepare(self, session: Session) -> None:
        """Prepare to answer queries about a session, without computing its metrics."""
        if session.job is None:
            return
        with self._lock:
            self._view = View(session.job, session.filter, previous=self._view)
            findings = Findings(generation=session.generation)
            for found in stages(self._view, session.filter, findings, ()):
                self._findings = found
            self._ready = session.generation, self._view
            release_memory(session.job, heap=True)

    def run(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        """Post the findings of a session after each stage, until they are complete or cancelled.

        Returns:
            False if only the first number was posted, while more ranks are loading; the caller
            runs again, so that ranks that are loaded together are also drawn together.
        """
        with self._lock:  # a run that is being cancelled ends first: never two at a time
            if session.job is None or cancelled():
                return True
            if self._view is not None and _is_other(self._view.job.capture, session.job.capture):
                self._findings, self._began = Findings(), False  # show nothing of another capture
            self._view = View(session.job, session.filter, previous=self._view)
            self._ready = session.generation, self._view
            start = replace(self._findings, generation=session.generation, complete=False)
            if not session.accepts(self._findings.generation):
                start = replace(start, results={})  # of another window
            began, self._began = self._began, True
            whole = session.ranks_loaded >= session.ranks_expected
            saved = _saved_results(self._view) if whole else {}
            if not began and not saved:
                start = self._post_first(start, post)
                if not whole:
                    return False
            found = tuple(self._found().values())
            if saved:  # of an indexed job: the Overview is there before any column is read
                start = replace(start, metrics=found, results={**start.results, **saved})
                self._findings = start
                post(FindingsReady(start))
                if cancelled():
                    return True
            for findings in stages(self._view, session.filter, start, found, saved):
                self._findings = findings
                if findings.complete:
                    self._view.forget_details()
                release_memory(session.job, heap=findings.complete)
                if cancelled():
                    return True
                post(FindingsReady(findings))
        return True

    def _post_first(self, findings: Findings, post: Callable[[Fact], object]) -> Findings:
        """Post a first number, before any other metric is imported."""
        first = self._first()
        if first is not None and self._view is not None:
            findings = _with_result(replace(findings, metrics=(first,)), first, self._view)
            self._findings = findings
            post(FindingsReady(findings))
        return findings


def _is_other(one: Capture, two: Capture) -> bool:
    """Whether captures are not the same one; that of a followed directory takes in new files."""
    return (one.source, one.name) != (two.source, two.name)


def _saved_results(view: View) -> Mapping[str, Result]:
    """Return what ``ccltui index`` computed of a whole job, empty where it was not indexed."""
    # A first number of other jobs is posted before this is imported.
    from ccltui.index.saved_results import SavedResults  # noqa: PLC0415

    return SavedResults.loaded(view)


def stages(
    view: View,
    chosen: ViewOptions,
    findings: Findings,
    found: tuple[Metric, ...],
    saved: Mapping[str, Result] = MappingProxyType({}),
) -> Iterator[Findings]:
    """Yield findings with more in each: lanes, then communicators, then one metric after another.

    Metrics in ``saved`` are not computed: ``findings`` has their results. A stage that fails is
    left out; its error is raised after the last stage.
    """
    findings = replace(findings, metrics=found)
    first = (FIRST_METRIC, MATCHING_METRIC, *OVERVIEW_METRICS)
    urgent = {name: place for place, name in enumerate(first)}
    ordered = sorted(found, key=lambda metric: urgent.get(metric.name, len(urgent)))
    failed: list[Exception] = []
    for stage in (_with_lanes, _with_communicators):
        try:
            findings = stage(findings, view, chosen)
        except MemoryError:
            raise
        except Exception as error:
            failed.append(error)
        yield findings
    for metric in ordered:
        if metric.name in saved and not metric.origin:
            continue
        findings = _with_result(findings, metric, view)
        yield findings
    yield replace(findings, complete=True)
    if failed:
        raise failed[0]


def _with_lanes(findings: Findings, view: View, chosen: ViewOptions) -> Findings:
    steps, lanes = steps_of_job(view), lanes_of(view)
    return replace(
        findings,
        lanes=lanes,
        tracks=tracks_of(lanes),
        minimap=Minimap(tuple(lanes.values())),
        steps=steps,
        span=span_of(view, chosen, steps),
        origin_ns=view.origin_ns,
    )


def _with_communicators(findings: Findings, view: View, chosen: ViewOptions) -> Findings:
    communicators, lanes = communicators_of(view, chosen), with_waiting(findings.lanes, view)
    return replace(
        findings,
        lanes=lanes,
        tracks=tracks_of(lanes),
        communicators=communicators,
        matched=findings.generation,
        worst_first=worst_first(communicators),
        calls=calls_by_rank(communicators),
        harm_ns=harm_by_rank(communicators),
        clock=clock_of(view, [rank.label for rank in view.ranks]),
        nodes=nodes_of(view),
        groups=groups_by_size(communicators),
    )


def _with_result(findings: Findings, metric: Metric, view: View) -> Findings:
    return replace(findings, results={**findings.results, metric.name: metric.run(view)})
