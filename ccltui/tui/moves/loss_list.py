"""The largest losses of time, and moves to the view that shows each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ccltui.tui.moves.cursor import in_view, show_communicator, to_collective, to_time
from ccltui.tui.state.own.overview_state import OVERVIEW_STATE
from ccltui.tui.state.own.pane_names import ALIGNMENT, TIMELINE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Drawer, ViewState

if TYPE_CHECKING:
    from ccltui.report.overview_text import Finding

_AROUND = 3
"""Time span in view around a loss that has a time, as a multiple of its length."""


def findings(scene: Scene) -> Sequence[Finding]:
    """Return what costs time: the culprit first, the largest losses, other candidates."""
    from ccltui.report import overview_text  # noqa: PLC0415  (after the first paint)

    return overview_text.findings(scene.findings.results)


def has_culprit(found: Sequence[Finding]) -> bool:
    """Return whether the first finding is the verdict, which names a culprit."""
    return bool(found) and found[0].metric == "verdict" and not found[0].key.startswith("also.")


def verdict(scene: Scene) -> str:
    """Return the verdict in words, or that it is being computed."""
    from ccltui.report import overview_text  # noqa: PLC0415

    results = scene.findings.results
    if "verdict" not in results and not scene.findings.complete:
        return "verdict: …"
    return overview_text.headline(results)


def heading(scene: Scene) -> str:
    """Return the heading of the losses, or the reason why there are none."""
    from ccltui.report import overview_text  # noqa: PLC0415

    return overview_text.lost(scene.findings.results)


def why_no_evidence(scene: Scene) -> str | None:
    """Return the reason when no loss can be shown."""
    found = findings(scene)
    if found:
        return None
    if not scene.findings.lanes and not scene.session.busy:
        return "no rank is loaded"
    return heading(scene).removeprefix("fix first: ").replace("…", "still computing")


def show_next(scene: Scene) -> ViewState:
    """Show the evidence of the next loss, the largest first; after the last comes the first."""
    found = findings(scene)
    if not found:
        return scene.state
    loss = OVERVIEW_STATE.of(scene.state).loss
    at = 0 if loss is None else (loss + 1) % len(found)
    return show(scene, at)


def show(scene: Scene, index: int) -> ViewState:
    """Show a loss: the collective that ranks waited for, else the moment in time."""
    found = findings(scene)
    index = min(index, len(found) - 1)
    own = replace(OVERVIEW_STATE.of(scene.state), loss=index, table_open=False)
    state = OVERVIEW_STATE.put(scene.state, own)
    evidence = found[index].evidence
    if evidence is None:
        return state
    scene = scene.with_state(state)
    if "index" in evidence:
        shown = to_instance(scene, evidence["group_number"], evidence["index"])
        if shown is not None:
            return shown
    return _moment(scene, evidence)


def to_instance(scene: Scene, number: int, row: int) -> ViewState | None:
    """Show instance ``row`` of a matched group in Alignment, None where it is not in view."""
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
    at = _time_ns(scene, evidence)
    state = replace(scene.state.select(rank=evidence["rank"]), pane=TIMELINE, drawer=None)
    if at is None:
        return state
    length = round(evidence.get("length_us", 0) * 1000)
    if length:
        cell = min(max(-(-length * _AROUND // state.time.cells), 1), state.time.widest_ns)
        view = replace(state.time, cell_ns=cell).centred(at + length // 2)
        state = replace(state, time=view)
    return in_view(to_time(scene.with_state(state), at))


def _time_ns(scene: Scene, evidence: Mapping[str, Any]) -> int | None:
    """Return the time of an evidence: its own, or the begin of its step; None without either."""
    time_us: float | None = evidence.get("time_us")
    if time_us is not None:
        return round(time_us * 1000)
    starts = [step.start_ns for step in scene.findings.steps if step.id == evidence.get("step")]
    return starts[0] if starts else None
