"""The largest losses of time, and moves to the view that shows each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ccltui.tui.moves.cursor import in_view, show_communicator, to_collective, to_time
from ccltui.tui.state.own.pane_names import ALIGNMENT, TIMELINE
from ccltui.tui.state.own.summary_state import SUMMARY_STATE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Drawer, ViewState

SHOWN = 3
_AROUND = 3
"""Time span in view around a loss that has a time, as a multiple of its length."""


def losses(scene: Scene) -> Sequence[Mapping[str, Any]]:
    """Return the largest losses, largest first; none while they are not known."""
    result = scene.findings.results.get("fix_first")
    if result is None or result.value is None:
        return ()
    rows: Sequence[Mapping[str, Any]] = result.details["losses"]
    return rows[:SHOWN]


def heading(scene: Scene) -> str:
    """Return the heading of the losses, or the reason why there are none."""
    result = scene.findings.results.get("fix_first")
    if result is None:
        return "fix first: …"
    if result.value is None:
        reason = result.reasons[0].message if result.reasons else "no reason given"
        return f"fix first: absent: {reason}"
    if not result.details["losses"]:
        return "fix first: nothing is lost: a kernel computes all the time"
    total = result.details["lost_ratio"]
    return f"fix first: {total:.1%} of the time no kernel computes; most of it is lost to"


def why_no_evidence(scene: Scene) -> str | None:
    """Return the reason when no loss can be shown."""
    found = losses(scene)
    if found:
        return None
    if not scene.findings.lanes and not scene.session.busy:
        return "no rank is loaded"
    return heading(scene).removeprefix("fix first: ").replace("…", "still computing")


def show_next(scene: Scene) -> ViewState:
    """Show the evidence of the next loss, the largest first; after the last comes the first."""
    found = losses(scene)
    if not found:
        return scene.state
    loss = SUMMARY_STATE.of(scene.state).loss
    at = 0 if loss is None else (loss + 1) % len(found)
    return show(scene, at)


def show(scene: Scene, index: int) -> ViewState:
    """Show a loss: the collective that ranks waited for, else the moment in time."""
    found = losses(scene)
    index = min(index, len(found) - 1)
    own = replace(SUMMARY_STATE.of(scene.state), loss=index, table_open=False)
    state = SUMMARY_STATE.put(scene.state, own)
    evidence = found[index]["evidence"]
    if evidence is None:
        return state
    scene = scene.with_state(state)
    if "index" in evidence:
        shown = _collective(scene, evidence["group_number"], evidence["index"])
        if shown is not None:
            return shown
    return _moment(scene, evidence)


def _collective(scene: Scene, number: int, row: int) -> ViewState | None:
    for index, communicator in enumerate(scene.findings.communicators or ()):
        places = (communicator.row == row).nonzero()[0]
        if communicator.number != number or not len(places):
            continue
        state = replace(scene.state, pane=ALIGNMENT, drawer=Drawer())
        scene = scene.with_state(state)
        if index != state.selection.communicator:
            scene = scene.with_state(show_communicator(scene, index))
        return to_collective(scene, int(places[0]), culprit=True)
    return None


def _moment(scene: Scene, evidence: Mapping[str, Any]) -> ViewState:
    at = round(evidence["time_us"] * 1000)
    state = replace(scene.state.select(rank=evidence["rank"]), pane=TIMELINE, drawer=None)
    length = round(evidence.get("length_us", 0) * 1000)
    if length:
        cell = min(max(-(-length * _AROUND // state.time.cells), 1), state.time.widest_ns)
        view = replace(state.time, cell_ns=cell).centred(at + length // 2)
        state = replace(state, time=view)
    return in_view(to_time(scene.with_state(state), at))
