"""The measured area of the timeline: its span, contents and window."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from ccltui.parsers import numbers
from ccltui.tui.state.job_findings import Span
from ccltui.tui.state.pane import Axis, pane_in_view
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Area, ViewState


def measure(scene: Scene) -> ViewState:
    """Begin an area at the cursor; the second time end it, the third time begin again."""
    area, at = scene.state.area, scene.state.selection.time_ns
    at = scene.state.time.left_ns if at is None else at
    if area is None or area.end_ns is not None:
        return replace(scene.state.select(time_ns=at), area=Area(at))
    return replace(scene.state, area=Area(area.start_ns, at))


def next_edge(scene: Scene, direction: int) -> int | None:
    """Return the next start or end of work of the selected rank, ns since the origin."""
    at, lane = (
        scene.state.selection.time_ns,
        scene.findings.lanes.get(scene.state.selection.rank or ""),
    )
    if at is None or lane is None:
        return None
    now = int(lane.own(np.array(at + scene.findings.origin_ns, np.int64)))
    found = []
    for track in (lane.compute, lane.network):
        for times in (track.start_ns, track.end_ns):
            row = int(times.searchsorted(now, side="right" if direction > 0 else "left"))
            row -= direction < 0
            if 0 <= row < len(times):
                found.append(int(times[row]))
    if not found:
        return None
    there = lane.shared(min(found) if direction > 0 else max(found)) - scene.findings.origin_ns
    return max(there, at + 1) if direction > 0 else min(there, at - 1)


def span(scene: Scene) -> Span | None:
    """Return the measured span, up to the cursor while it is open; None without an area."""
    area, at = scene.state.area, scene.state.selection.time_ns
    if area is None:
        return None
    other = area.end_ns if area.end_ns is not None else area.start_ns if at is None else at
    return Span(min(area.start_ns, other), max(area.start_ns, other))


def text(scene: Scene) -> str:
    """Describe length, shares of the rank's time, and data exchanged; "" without an area."""
    found, lane = span(scene), scene.findings.lanes.get(scene.state.selection.rank or "")
    if found is None or lane is None:
        return ""
    length = found.end_ns - found.start_ns
    parts = [f"area {numbers.duration(length)}"]
    if length:
        edges = lane.own(np.array([found.start_ns, found.end_ns]) + scene.findings.origin_ns)
        tracks = {"compute": lane.compute, "net": lane.network, "both": lane.both}
        shares = [
            f"{name} {numbers.percent_cell(track.sample(edges).covered_ns[0] / length)}"
            for name, track in tracks.items()
        ]
        parts += [rank_name(lane.label), *shares, _exchanged(scene, lane.label, found)]
    return "  ".join(parts)


def _exchanged(scene: Scene, label: str, found: Span) -> str:
    """Describe the matched collectives that the rank began in the area, with bytes where known."""
    calls, communicators = scene.findings.calls.get(label), scene.findings.communicators or ()
    if calls is None:
        return ""
    first, last = np.searchsorted(calls.start_ns, [found.start_ns, found.end_ns]).tolist()
    rows = range(first, last)
    sizes = [
        int(communicators[calls.communicator[row]].message_bytes[calls.k[row]]) for row in rows
    ]
    known = sum(size for size in sizes if size > 0)
    text = numbers.counted(len(rows), "collective")
    return f"{text} {numbers.binary_size(known)}" if known else text


def window(scene: Scene) -> Span | None:
    """Return the window that ``T`` sets: the area, else the view; None where nothing is in view."""
    chosen, limits = span(scene), scene.findings.span
    axis = pane_in_view(scene).axis
    if axis is Axis.TIME and chosen is not None:
        return chosen if chosen.end_ns > chosen.start_ns else None
    if axis is Axis.TIME and limits is not None:
        view = scene.state.time
        return Span(max(view.left_ns, limits.start_ns), min(view.right_ns, limits.end_ns))
    communicator, columns = scene.communicator, scene.state.columns
    if axis is not Axis.COLLECTIVES or communicator is None or not len(communicator):
        return None
    first, past = columns.first, columns.first + columns.shown
    end = limits.end_ns if limits is not None else int(communicator.first_ns[-1]) + 1
    if past < len(communicator):
        end = int(communicator.first_ns[past])
    return Span(int(communicator.first_ns[first]), end)


def why_no_window(scene: Scene) -> str | None:
    """Return the reason when ``T`` cannot set a window."""
    if window(scene) is not None:
        return None
    return "the area is empty: move the cursor" if scene.state.area else "nothing is in view"
