"""New findings under an old view: the cursor stays where it was, as far as that still exists."""

from __future__ import annotations

from dataclasses import replace

from ccltui.tui.scene import Findings, Scene
from ccltui.tui.viewport import ColumnView
from ccltui.tui.viewstate import ViewState


def adopt(scene: Scene, findings: Findings) -> Scene:
    """The scene with newer findings; its state points at things that are in them."""
    state = scene.state
    if findings.span is not None:
        span = findings.span
        state = replace(state, time=state.time.bounded(span.start_ns, span.end_ns))
    if findings.communicators is not scene.findings.communicators:
        state = _same_communicator(scene, findings, state)
    if findings.span is not None:
        state = _inside(state, findings)
    after = replace(scene, findings=findings, state=state)
    ranks = after.ranks
    if ranks and state.selection.rank not in ranks:
        after = after.with_state(state.select(rank=ranks[0]))
    return after


def _inside(state: ViewState, findings: Findings) -> ViewState:
    """With the moment of the cursor in what is shown: that of the collective, if one is chosen."""
    span, selection = findings.span, state.selection
    if span is None or selection.time_ns is None:
        return state
    if span.start_ns <= selection.time_ns <= span.end_ns:
        return state
    communicators = findings.communicators or ()
    time_ns = selection.time_ns
    if selection.k is not None and selection.communicator < len(communicators):
        time_ns = communicators[selection.communicator].moment_ns(selection.k)
    time_ns = min(max(time_ns, span.start_ns), span.end_ns - 1)
    return replace(state, selection=replace(selection, time_ns=time_ns))


def _same_communicator(scene: Scene, findings: Findings, state: ViewState) -> ViewState:
    """Follow the communicator by name, and the collective by its moment."""
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
    worst = None if k is None or state.worst is None else chosen.place_of(k)
    return replace(state, selection=selection, columns=columns, worst=worst)
