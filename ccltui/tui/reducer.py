"""Compute the scene that follows from a fact: opened job, loaded rank, findings, answer.

The cursor stays in place as far as that place still exists.
"""

from __future__ import annotations

from msgspec.structs import replace

from ccltui.tui.engine.messages import (
    STOPPING,
    Exported,
    Fact,
    FindingsReady,
    JobFollowed,
    JobOpened,
    Problem,
    after,
)
from ccltui.tui.moves.loss_list import at_first, first_place
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.state.answers import Answered, Findings
from ccltui.tui.state.finding_rows import step_at
from ccltui.tui.state.pane import all_panes
from ccltui.tui.state.pane_states import DEVICE, EVENTS_STATE, OVERVIEW
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Looked
from ccltui.tui.state.view_state import Area, ColumnView, ViewState
from ccltui.tui.state.wanted_queries import answered


def adopt(scene: Scene, findings: Findings) -> Scene:
    """Return the scene with newer findings; its state refers only to items in them."""
    state = scene.state
    if scene.findings.span is not None and findings.span is not None:
        state = _rebased(state, scene.findings.origin_ns - findings.origin_ns)
    if findings.span is not None:
        span = findings.span
        state = replace(state, time=state.time.bounded(span.start_ns, span.end_ns))
    if findings.communicators is not scene.findings.communicators:
        state = _same_communicator(scene, findings, state)
    after = replace(scene, findings=findings, state=state)
    if findings.span is not None:
        after = _inside(after)
    ranks = after.ranks
    if ranks and state.selection.rank not in ranks:
        after = after.with_state(after.state.select(rank=ranks[0]))
    return after


def _rebased(state: ViewState, shift_ns: int) -> ViewState:
    """Return the view of the same moments after the job's origin moved, as by an earlier rank."""
    if not shift_ns:
        return state
    selection, area = state.selection, state.area
    if selection.time_ns is not None:
        selection = replace(selection, time_ns=selection.time_ns + shift_ns)
    if area is not None:
        end_ns = None if area.end_ns is None else area.end_ns + shift_ns
        area = Area(area.start_ns + shift_ns, end_ns)
    return replace(state, selection=selection, area=area, time=state.time.moved(shift_ns))


def _inside(scene: Scene) -> Scene:
    """Move the cursor's time into the shown span, near the chosen collective if there is one."""
    time, selection = scene.state.time, scene.state.selection
    if selection.time_ns is None or time.start_ns <= selection.time_ns <= time.end_ns:
        return scene
    moment = selection.time_ns
    if scene.communicator is not None and selection.k is not None:
        moment = scene.communicator.moment_ns(selection.k)
    return scene.with_state(scene.state.select(time_ns=time.nearest(moment)))


def _same_communicator(scene: Scene, findings: Findings, state: ViewState) -> ViewState:
    """Select the communicator of the same name, and the collective of the same moment."""
    communicators = findings.communicators or ()
    before = scene.communicator
    names = [communicator.name for communicator in communicators]
    index = names.index(before.name) if before is not None and before.name in names else 0
    if not communicators:
        return replace(state, selection=replace(state.selection, communicator=0, k=None))
    chosen = communicators[index]
    time_ns = state.selection.time_ns
    k = chosen.nearest(0 if time_ns is None else time_ns)
    selection = replace(state.selection, communicator=index, k=k)
    if time_ns is None and k is not None:
        selection = replace(selection, time_ns=chosen.moment_ns(k))
    whole = ColumnView.whole(len(chosen), state.columns.cells)
    kept = replace(state.columns, count=len(chosen))
    everything = state.columns == state.columns.fit()
    columns = whole if everything or kept.shown >= len(chosen) else kept.showing(k or 0)
    worst = None
    if k is not None and state.worst is not None and findings.worst_first is not None:
        worst = findings.worst_first.place_of(index, k)
    return replace(state, selection=selection, columns=columns, worst=worst)


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
    if isinstance(fact, Looked):
        followed = scene.followed
        return scene if followed is None else replace(scene, followed=followed.after_look(fact))
    scene = replace(scene, session=after(scene.session, fact))
    if scene.notice == STOPPING and not scene.session.busy:
        scene = replace(scene, notice="")
    return _opened(scene) if isinstance(fact, JobOpened | JobFollowed) else scene


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
    own = EVENTS_STATE.default
    if counted is None or counted.value or EVENTS_STATE.of(scene.state) != own:
        return scene
    return scene.with_state(EVENTS_STATE.put(scene.state, replace(own, kind=DEVICE)))


def _at_first_finding(before: Scene, after: Scene) -> Scene:
    """Put the cursor on the place of the first finding, once it is known and no key was pressed.

    Alignment and Timeline then open where the time is lost, not at the first collective.
    """
    # Findings over fewer ranks come first, and may come before the places that the cursor can be
    # put on: those over all ranks can be of another place.
    is_new = "findings" in after.findings.results and (
        first_place(before) != first_place(after)
        or before.findings.generation != after.findings.generation
        or not before.findings.is_matched
    )
    if not is_new or after.state.pane != OVERVIEW or after.history.by:
        return after
    state = at_first(after)
    at = state.selection.time_ns
    step = None if at is None else step_at(after, at)
    return after.with_state(state if step is None else STEPS.with_step(state, step.id))


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
