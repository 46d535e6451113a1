"""The Timeline pane: compute and network of every rank against time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line, fit
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import to_time
from ccltui.tui.panes.chart_pane import ChartPane, as_many, collective_text, named
from ccltui.tui.state.answers import Query, Span
from ccltui.tui.state.pane import Axis
from ccltui.tui.state.pane_states import TIMELINE as NAME
from ccltui.tui.state.pane_states import TIMELINE_STATE, Among
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


_KERNEL_NAME = 30


class TimelinePane(ChartPane):
    """Device work of all ranks over time."""

    name = NAME
    key = "3"
    title = "Timeline"
    short_title = "Time"
    about = (
        "Per rank one row of compute and one of network, on corrected clocks. A network "
        "cell has the colour of the largest part of its time: overlapped by compute, waiting for "
        "a late rank, a pipeline's bubble, or transfer. A height is the share of "
        "busy time, rounded up: any activity shows. Copies have a row where there is room, else "
        "they show where nothing computes. u: streams, idle time in the colour of its "
        "cause, counters of clock, power and temperature. "
        "U: ranges, operators and runtime calls of the host, and an arrow from the launch to the "
        "work at the cursor. Z: the chain of events behind a late collective. The last rows, where "
        "there is room, are the whole window: network and compute time of all ranks, and what of "
        "it is in view. R: the kernels from this one to its next occurrence, over all "
        "repetitions; V: this rank and step against another."
    )
    axis = Axis.TIME
    among = Among.TIMES

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield queries for unfolded lanes, the arrow, and the category of kernels shown."""
        from ccltui.tui.state import wanted_queries as queries

        asked = (queries.stream_query, queries.host_query, queries.kernel_query)
        found = [query(scene) for query in (*asked, queries.launch_query)]
        return [query for query in found if query is not None]

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw as many ranks as fit, the selected one among them."""
        from ccltui.tui.panes.pictures import paint_timeline

        return paint_timeline(scene, height, width)

    def shift(self, before: Scene, after: Scene) -> int:
        """Return by how many columns the picture moved, 0 when it is a different picture."""
        old, new = before.state.time, after.state.time
        if (old.cell_ns, old.cells, old.phase_ns) != (new.cell_ns, new.cells, new.phase_ns):
            return 0
        return old.k0 - new.k0

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the legend of the cells, or the kind of kernels that rows are limited to."""
        kernels = TIMELINE_STATE.of(scene.state).kernels
        if kernels:
            return [(f"{kernels} only: C ", Ink.WARNING)]
        return _classes_legend(scene, narrow=narrow)

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the work at the cursor, and the measured area or else the selected collective."""
        area = _area_text(scene)
        below: Line = (
            [(f" {area}", Ink.STRONG)] if area else [(f" {collective_text(scene)}", Ink.TEXT)]
        )
        return [(f" {_time_text(scene, width - 2)}", Ink.TEXT)], below

    def hit_place(self, scene: Scene) -> int:
        """Return the selected time."""
        time_ns = scene.state.selection.time_ns
        return -1 if time_ns is None else time_ns

    def to_hit(self, scene: Scene, place: int) -> ViewState:
        """Select a time."""
        return to_time(scene, place)

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the name of the kernel under the cursor."""
        from ccltui.tui.state.event_table import running_at_cursor

        running = running_at_cursor(scene)
        return None if running is None else running.name

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric of the classes of time."""
        return "comm_comp_overlap"

    def measured(self, scene: Scene) -> Span | None:
        """Return the measured area."""
        from ccltui.tui.moves import time_moves

        return time_moves.span(scene)


TIMELINE: Final = TimelinePane()


def _classes_legend(scene: Scene, *, narrow: bool) -> Line:
    """Return the legend of a lane; two rows per rank without colour do not mark exposed parts."""
    if not scene.colour and not TIMELINE_STATE.of(scene.state).merged:
        return [("comp, net below  " if narrow else "compute, network below it  ", Ink.TAB)]
    from ccltui.tui.panes.pictures import is_network_alone

    first = 2 if is_network_alone(scene) else 0
    looks = [
        *list(zip(_CLASSES, _CLASS_NAMES[narrow], strict=True))[first:],
        *((ink, names[narrow]) for track, ink, names in _PARTS if scene.findings.has_work(track)),
    ]
    causes = scene.colour and _unfolds(scene)
    if causes:
        looks += zip(_CAUSES, _CAUSE_NAMES[narrow], strict=True)
    inks, names = zip(*looks, strict=True)
    return named(scene, inks, [f" {name}{' ' if narrow and causes else '  '}" for name in names])


_CLASSES: Final = (Ink.COMPUTE, Ink.OVERLAPPED, Ink.TRANSFER)
_CLASS_NAMES: Final = (("compute", "overlapped", "transfer"), ("comp", "both", "net"))
_PARTS: Final = (
    ("waiting", Ink.WAITING, ("waiting", "wait")),
    ("bubble", Ink.BUBBLE, ("bubble", "bubble")),
    ("copies", Ink.COPY, ("copies", "copy")),
)
"""Kinds of time that are named where a rank has any."""
_CAUSES: Final = (Ink.HOST, Ink.INPUT, Ink.BLOCKED, Ink.DELAY, Ink.IDLE)
_CAUSE_NAMES: Final = (
    ("host works", "loads data", "blocked", "device late", "unknown"),
    ("host", "data", "blocked", "device", "?"),
)
"""Colours of the host and of idle time; names at full length, and short: with all colours they
leave the name of the pane its place on a line of 80 cells."""


def _unfolds(scene: Scene) -> bool:
    return bool(scene.state.unfolded or TIMELINE_STATE.of(scene.state).hosts)


def _area_text(scene: Scene) -> str:
    """Describe the measured area of the timeline."""
    if scene.state.area is None:
        return ""

    from ccltui.tui.moves import time_moves

    return time_moves.text(scene)


def _time_text(scene: Scene, width: int) -> str:
    view, selection = scene.state.time, scene.state.selection
    cursor = "--" if selection.time_ns is None else numbers.instant(selection.time_ns, view.cell_ns)
    rank = "" if selection.rank is None else rank_name(selection.rank)
    left = numbers.instant(view.left_ns, view.cell_ns)
    parts = [
        f"at {cursor}  {rank} {_running_text(scene)}",
        _launch_text(scene),
        f"cell {numbers.duration(view.cell_ns)}",
        f"view {left} +{numbers.duration(view.cells * view.cell_ns)}",
        scene.findings.clock,
    ]
    return as_many(parts, width)


def _idle_text(scene: Scene) -> str:
    """Return that the rank is idle, and why where its idle time is shown by cause."""
    import numpy as np

    from ccltui.tui.state.rank_lanes import IDLE_LANE
    from ccltui.tui.state.wanted_queries import stream_query

    found, selection = scene.answers.answer(stream_query(scene)), scene.state.selection
    rank, at = selection.rank or "", selection.time_ns
    lane = scene.findings.lanes.get(rank)
    if found is None or lane is None or at is None:
        return "idle"

    now = int(lane.own(np.array(scene.findings.origin_ns + at, np.int64)))
    for stream in found.get(rank, ()):
        row = int(stream.start_ns.searchsorted(now, side="right")) - 1
        if stream.label == IDLE_LANE and row >= 0 and stream.end_ns[row] > now:
            return f"idle: {stream.text(int(stream.name[row]))}"
    return "idle"


def _launch_text(scene: Scene) -> str:
    """Describe the launch of the work at the cursor; "" unless the host of the rank is shown."""
    from ccltui.tui.state.wanted_queries import launch_query

    found = scene.answers.to(launch_query(scene))
    if found is None:
        return ""
    site = found.answer
    if site is None:
        return "no launch recorded"
    by = "" if site.operator is None else f" in {fit(site.operator.name, _KERNEL_NAME).rstrip()}"
    return f"launched {numbers.duration(site.delay_ns)} before{by}"


def _running_text(scene: Scene) -> str:
    """Return the kernel under the cursor, or the message that there is none."""
    from ccltui.tui.state.event_table import running_at_cursor

    running = running_at_cursor(scene)
    if running is None:
        return _idle_text(scene)
    stream = f"s{running.stream} " if running.stream >= 0 else ""
    name = fit(running.name, _KERNEL_NAME).rstrip()
    return f"{stream}{name} {numbers.duration(running.dur_ns)}"
