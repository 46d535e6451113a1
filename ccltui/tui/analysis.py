"""From a job to what the panes show: lanes, communicators and metric results, stage by stage.

Runs in a thread. All numbers come from the metrics' view of the job; here they only change
their shape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ccltui.draw import numbers
from ccltui.draw.lanes import Lane, Track
from ccltui.draw.minimap import Minimap
from ccltui.tui import memory
from ccltui.tui.communicator import (
    Communicator,
    calls_by_rank,
    groups_by_size,
    harm_by_rank,
)
from ccltui.tui.messages import Fact, FindingsReady
from ccltui.tui.queries import Answered, Query
from ccltui.tui.scene import Findings, Scene, Span, Step
from ccltui.tui.session import Filter, Session
from ccltui.tui.side_tables import of_traces
from metrics.calls import Calls
from metrics.classify import TYPES
from metrics.collectives.stragglers import GroupArrivals
from metrics.intervals import Intervals, union
from metrics.rank_facts import RankFacts
from metrics.registry import Metric, find
from metrics.view import ProfileMode, View, ViewOptions
from metrics.view import Span as Measured
from parsers.columns import I64, Bool

if TYPE_CHECKING:
    from ccltui.tui.options import ExplorerOptions


FIRST: Final = "coll_call_num"
"""The metric that needs least of a rank, so that a number is there before anything is drawn."""
TRUST: Final = "straggler_lag"
"""The metric that tells whether matched collectives can be believed: computed before others."""
LOSSES: Final = "fix_first"
"""What Summary begins with."""


class Analyst:
    """Computes findings, one session at a time; what a newer session can keep is kept."""

    def __init__(
        self,
        options: ExplorerOptions,
        found: Callable[[], Mapping[str, Metric]] = of_traces,
        first: Callable[[], Metric | None] = lambda: find(FIRST),
    ) -> None:
        self._options = options
        self._found = found
        self._first = first
        self._lock = threading.Lock()
        self._view: View | None = None
        self._findings = Findings()
        self._ready: tuple[int, View] | None = None
        self._began = False

    def answer(self, scene: Scene, query: Query) -> Answered | None:
        """What a pane asks about the scene; None when the scene is no longer the newest."""
        from ccltui.tui import answers  # noqa: PLC0415  (a number comes before)

        ready = self._ready
        if ready is None or ready[0] != scene.findings.generation:
            return None
        return answers.answer(ready[1], scene, query)

    def reply(self, generation: int, query: Query) -> Answered | None:
        """As `answer`, about what was last told if that is of this generation."""
        findings = self._findings
        if findings.generation != generation:
            return None
        return self.answer(Scene(Session(""), findings=findings), query)

    def look(self, session: Session) -> None:
        """Be ready to answer about a session whose findings somebody has already."""
        if session.job is None:
            return
        with self._lock:
            self._view = View(session.job, self._chosen(session.filter), previous=self._view)
            findings = Findings(generation=session.generation)
            for found in stages(self._view, session.filter, findings, ()):
                self._findings = found
            self._ready = session.generation, self._view
            memory.give_back(session.job, heap=True)

    def run(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        """Tell the findings of a session as they come, until they are complete or stale.

        False where only the first number is told: ranks that come at once are drawn at once.
        """
        with self._lock:  # a run that is being cancelled ends first: never two at a time
            if session.job is None or cancelled():
                return True
            if self._view is not None and self._view.job.capture != session.job.capture:
                self._findings, self._began = Findings(), False  # nothing of another is to be seen
            self._view = View(session.job, self._chosen(session.filter), previous=self._view)
            self._ready = session.generation, self._view
            start = replace(self._findings, generation=session.generation, complete=False)
            if not session.accepts(self._findings.generation):
                start = replace(start, results={})  # numbers of another window are wrong here
            began, self._began = self._began, True
            if not began:
                start = self._tell_first(start, post)
                if session.ranks_loaded < session.ranks_expected:
                    return False
            found = tuple(self._found().values())
            for findings in stages(self._view, session.filter, start, found):
                self._findings = findings
                if findings.complete:
                    self._view.forget_details()
                memory.give_back(session.job, heap=findings.complete)
                if cancelled():
                    return True
                post(FindingsReady(findings))
        return True

    def _tell_first(self, findings: Findings, post: Callable[[Fact], object]) -> Findings:
        """A first number, before all other metrics are even imported."""
        first = self._first()
        if first is not None and self._view is not None:
            findings = _with_result(replace(findings, metrics=(first,)), first, self._view)
            self._findings = findings
            post(FindingsReady(findings))
        return findings

    def _chosen(self, chosen: Filter) -> ViewOptions:
        return ViewOptions(
            window=chosen.window,
            steps=chosen.steps,
            ranks=chosen.ranks,
            overrides=self._options.overrides,
            profile_mode=cast("ProfileMode", self._options.profile_mode),
            raw_clocks=self._options.raw_clocks,
            span=cast("Measured", self._options.span),
        )


def stages(
    view: View, chosen: Filter, findings: Findings, found: tuple[Metric, ...]
) -> Iterator[Findings]:
    """Findings growing: lanes, then collectives, then one metric after another."""
    findings = replace(findings, metrics=found)
    urgent = {FIRST: 0, TRUST: 1, LOSSES: 2}
    ordered = sorted(found, key=lambda metric: urgent.get(metric.name, len(urgent)))
    steps, lanes = steps_of_job(view), lanes_of(view)
    findings = replace(
        findings,
        lanes=lanes,
        minimap=Minimap(tuple(lanes.values())),
        steps=steps,
        span=span_of(view, chosen, steps),
        origin_ns=view.origin_ns,
    )
    yield findings
    communicators = communicators_of(view, chosen)
    findings = replace(
        findings,
        communicators=communicators,
        matched=findings.generation,
        calls=calls_by_rank(communicators),
        harm_ns=harm_by_rank(communicators),
        clock=clock_of(view, [rank.label for rank in view.ranks]),
        nodes=nodes_of(view),
        groups=groups_by_size(communicators),
    )
    yield findings
    for metric in ordered:
        findings = _with_result(findings, metric, view)
        yield findings
    yield replace(findings, complete=True)


def _with_result(findings: Findings, metric: Metric, view: View) -> Findings:
    return replace(findings, results={**findings.results, metric.name: metric.run(view)})


def nodes_of(view: View) -> dict[str, int]:
    """Number of the host of each rank, in order of their first ranks; without unnamed hosts."""
    known: dict[str, int] = {}
    hosts = {rank.label: rank.trace.host for rank in view.ranks if rank.trace.host}
    return {label: known.setdefault(host, len(known)) for label, host in hosts.items()}


def lanes_of(view: View) -> dict[str, Lane]:
    """Busy time of every chosen rank, whatever the window, by label."""
    return {
        rank.label: _lane(rank.label, rank.facts, view, rank.calls.event_group)
        for rank in view.ranks
    }


def _lane(label: str, facts: RankFacts, view: View, event_group: str) -> Lane:
    network, compute, _ = facts.busy
    if event_group != "gpu":  # no kernels: the collectives the host recorded
        calls = view.facts.calls[label]
        network = union(calls.start_ns, calls.end_ns)
    both = compute & network
    offset = view.offsets_ns.get(label, 0)
    lane = Lane(label, _track(compute), _track(network), _track(both), offset)
    drift_ppb = None if view.is_as_recorded else view.clocks.clocks[label].drift_ppb
    if drift_ppb is None:
        return lane
    return replace(lane, drift=drift_ppb / 1e9, drift_from_ns=view.clocks.reference_ns)


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


def span_of(view: View, chosen: Filter, steps: tuple[Step, ...]) -> Span | None:
    """What the timeline can show: the window or the chosen steps, else all device work."""
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


def communicators_of(view: View, chosen: Filter) -> tuple[Communicator, ...]:
    """Matched collectives of every communicator, that with the most harm first."""
    from metrics.collectives.beginnings import beginnings  # noqa: PLC0415  (a number comes before)

    begin = beginnings(view.facts.causes)
    found = [_communicator(view, number, one) for number, one in enumerate(begin)]
    if chosen.limits_time:
        found = [item.take(_chosen_rows(item, chosen)) for item in found]
    for item in found:
        _ = item.heat, item.by_harm, item.first_ns  # computed here, not in the user's way
    return tuple(sorted(found, key=lambda item: -int(item.harm_ns.sum())))


def _chosen_rows(item: Communicator, chosen: Filter) -> Bool:
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
        message_bytes=_message_bytes(view.facts.calls, group),
        step=match.step,
        confidence=group.confidence,
        begins=begins,
        number=number,
        row=np.arange(len(match.rows)),
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
    """How far times of these ranks can be trusted against each other; "" for a single one."""
    if len(labels) < 2:
        return ""
    if view.options.raw_clocks:
        return "raw clocks"
    residual = view.clocks.residual_p95_ns
    if residual is None or not view.clocks.comparable(labels):
        return "clocks unknown"
    return f"clock ±{numbers.duration(residual)}"
