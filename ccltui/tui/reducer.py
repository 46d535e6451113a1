"""Compute the scene that follows from a fact: opened job, loaded rank, findings, answer."""

from __future__ import annotations

from msgspec.structs import replace

from ccltui.tui.engine.messages import (
    STOPPING,
    Exported,
    Fact,
    FindingsReady,
    JobOpened,
    Problem,
    after,
)
from ccltui.tui.moves.loss_list import at_first
from ccltui.tui.state.answers import Answered
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.own.event_listing import EVENTS_STATE, EventsState, Listed, Listing
from ccltui.tui.state.own.pane_names import OVERVIEW
from ccltui.tui.state.pane import all_panes
from ccltui.tui.state.queries.wanted_queries import answered
from ccltui.tui.state.rebase_findings import adopt
from ccltui.tui.state.scene import Scene


def scene_after(scene: Scene, fact: Fact) -> Scene:
    """Return the scene that follows from a fact."""
    if isinstance(fact, FindingsReady):
        return _adopted(scene, fact.findings)
    if isinstance(fact, Problem):
        return replace(scene, notice=fact.problem)
    if isinstance(fact, Exported):
        return replace(scene, said=fact.message, notice=fact.problem)
    if isinstance(fact, Answered):
        return answered(scene, fact)
    scene = replace(scene, session=after(scene.session, fact))
    if scene.notice == STOPPING and not scene.session.busy:
        scene = replace(scene, notice="")
    return _opened(scene) if isinstance(fact, JobOpened) else scene


def _opened(scene: Scene) -> Scene:
    """Return the scene of a scanned directory: one without traces shows its other contents."""
    job = scene.session.job
    if job is None or job.capture.files or scene.state.pane != OVERVIEW:
        return scene
    for pane in all_panes():
        if pane.opens_without_traces and pane.why_unavailable(scene) is None:
            return scene.with_state(replace(scene.state, pane=pane.name))
    return scene


def _with_rows_to_list(scene: Scene) -> Scene:
    """List device work in Events where there are no collectives and nothing was chosen."""
    counted = scene.findings.results.get("coll_call_num")
    if counted is None or counted.value or EVENTS_STATE.of(scene.state) != EventsState():
        return scene
    return scene.with_state(EVENTS_STATE.put(scene.state, EventsState(Listing(Listed.DEVICE))))


def _at_first_finding(before: Scene, after: Scene) -> Scene:
    """Put the cursor on the place of the first finding, once it is known and no key was pressed.

    Alignment and Timeline then open where the time is lost, not at the first collective.
    """
    is_new = "findings" in after.findings.results and "findings" not in before.findings.results
    if not is_new or after.state.pane != OVERVIEW or after.history.by:
        return after
    return after.with_state(at_first(after))


def _adopted(scene: Scene, findings: Findings) -> Scene:
    """Adopt new findings; if they cover fewer ranks than are loaded by now, only the numbers."""
    session = scene.session
    if findings.generation == session.generation:
        after = _with_rows_to_list(adopt(scene, findings))
        return _at_first_finding(scene, after)
    if session.accepts(findings.generation):
        numbers = replace(scene.findings, metrics=findings.metrics, results=findings.results)
        return replace(scene, findings=numbers)
    return scene
