"""Adopt new findings; the cursor stays in place as far as that place still exists."""

from __future__ import annotations

from msgspec.structs import replace

from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.state.viewport import ColumnView


def adopt(scene: Scene, findings: Findings) -> Scene:
    """Return the scene with newer findings; its state refers only to items in them."""
    state = scene.state
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
