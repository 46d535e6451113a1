"""Compute what the panes show of a job, in stages: lanes, communicators, metric results.

Runs in a thread or in the server process. All numbers come from the metrics' view of the job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from ccltui.draw.minimap import Minimap
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.tui.engine import memory
from ccltui.tui.engine.compute_findings import (
    clock_of,
    communicators_of,
    lanes_of,
    nodes_of,
    span_of,
    steps_of_job,
    with_waiting,
)
from ccltui.tui.engine.messages import Fact, FindingsReady
from ccltui.tui.state.answers import Answered, ViewQuery
from ccltui.tui.state.communicator import (
    calls_by_rank,
    groups_by_size,
    harm_by_rank,
    worst_first,
)
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.side_tables import of_traces

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
        from ccltui.tui.engine import query_answers  # noqa: PLC0415

        ready = self._ready
        if ready is None or ready[0] != scene.findings.generation:
            return None
        return query_answers.answer(ready[1], scene, query)

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
            memory.release_memory(session.job, heap=True)

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
            if self._view is not None and self._view.job.capture != session.job.capture:
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
                memory.release_memory(session.job, heap=findings.complete)
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
        minimap=Minimap(tuple(lanes.values())),
        steps=steps,
        span=span_of(view, chosen, steps),
        origin_ns=view.origin_ns,
    )


def _with_communicators(findings: Findings, view: View, chosen: ViewOptions) -> Findings:
    communicators = communicators_of(view, chosen)
    return replace(
        findings,
        lanes=with_waiting(findings.lanes, view),
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
