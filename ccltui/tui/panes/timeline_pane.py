"""The Timeline pane: compute and network of every rank against time.

Draw the Timeline pane: compute and network of every rank against time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.rank_rows import ArrowEnd, RankRow, StepMark, grown, put_arrow, timeline
from ccltui.draw.ruler import put_area, put_hits
from ccltui.draw.text import fit
from ccltui.draw.timeline_chart import Selected, TimeGrid
from ccltui.parsers import numbers
from ccltui.tui.moves import measured_area
from ccltui.tui.moves.cursor import until_read
from ccltui.tui.panes.chart_pane import ChartPane
from ccltui.tui.panes.cursor_text import as_many, collective_text, named
from ccltui.tui.state.answers import Query
from ccltui.tui.state.job_findings import Span, Step
from ccltui.tui.state.name_search import Among
from ccltui.tui.state.pane import Axis
from ccltui.tui.state.pane_names import TIMELINE as NAME
from ccltui.tui.state.pane_states import TIMELINE_STATE
from ccltui.tui.state.rank_labels import gutter
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.state.wanted_queries import (
    hits_in_view,
    host_query,
    kernel_query,
    launch_query,
    stream_query,
)
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.lanes import Track
    from ccltui.draw.planes import Planes
    from ccltui.draw.timeline_chart import What
    from ccltui.tui.state.rank_lanes import HostLanes, Streams


_TALL = 30
"""Rows of a pane from which two are used for the whole window."""
_INKS = {"communication": Ink.TRANSFER, "copies": Ink.COPY}


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw as many ranks as fit, the selected one among them."""
    span = scene.findings.span
    if span is None:
        planes = Planes.blank(height, width, Ink.TEXT)
        planes.put(1, 1, until_read(scene, "Ranks appear here as they are read."), Ink.DIM)
        return planes
    rows = rank_rows(scene)
    selection, merged = scene.state.selection, TIMELINE_STATE.of(scene.state).merged
    view, steps = scene.state.time, _marks(scene)
    used = sum(row.height(merged=merged) for row in rows) + 1 + bool(steps)
    mapped = 2 if height >= _TALL else int(used < height)
    rows = grown(rows, height - mapped, merged=merged, steps=bool(steps))
    planes = timeline(
        rows,
        TimeGrid(view.k0, view.cell_ns, scene.findings.origin_ns, view.phase_ns),
        height=height - mapped,
        width=width,
        gutter=gutter(scene),
        selected=Selected(_selected(scene), selection.time_ns),
        merged=merged,
        colour=scene.colour,
        steps=steps,
    )
    _put_launch(planes, scene, rows)
    if mapped:
        planes = _with_minimap(planes, scene, span, mapped)
    measured = measured_area.span(scene)
    if measured is not None:
        put_area(
            planes, gutter(scene), view.column(measured.start_ns), view.column(measured.end_ns)
        )
    hits = hits_in_view(scene, Among.TIMES)
    if hits is not None:
        edges = TimeGrid(view.k0, view.cell_ns, 0, view.phase_ns).edges_ns(view.cells)
        passed = hits.places.searchsorted(edges)
        put_hits(planes, gutter(scene), np.flatnonzero(np.diff(passed)))
    return planes


def around(scene: Scene, labels: Sequence[str], span: Span, height: int, width: int) -> Planes:
    """Draw some ranks in a time span, in at most so many rows.

    A rank has two rows or more, or one where two of each would not fit.
    """
    lanes, left = scene.findings.lanes, gutter(scene)
    cell_ns = max(-(-(span.end_ns - span.start_ns) // max(width - left, 1)), 1)
    steps = _even(_steps_in(scene, span), max(width - left, 1))
    rows = [RankRow(scene.row_name(label), (lanes[label],)) for label in labels]
    merged = 2 * len(rows) + 1 + bool(steps) > height
    rows = grown(rows, height, merged=merged, steps=bool(steps))
    rank = scene.state.selection.rank
    return timeline(
        rows,
        TimeGrid(0, cell_ns, scene.findings.origin_ns, span.start_ns),
        height=min(sum(row.height(merged=merged) for row in rows) + 1 + bool(steps), height),
        width=width,
        gutter=left,
        selected=Selected(
            labels.index(rank) if rank in labels else -1, scene.state.selection.time_ns
        ),
        merged=merged,
        colour=scene.colour,
        steps=steps,
    )


def _put_launch(planes: Planes, scene: Scene, rows: Sequence[RankRow]) -> None:
    """Draw the arrow from the launch of the work at the cursor to the work."""
    found = scene.answers.to(launch_query(scene))
    lane = scene.findings.lanes.get(scene.state.selection.rank or "")
    if found is None or found.answer is None or lane is None:
        return
    if planes.width <= max(gutter(scene), 1):  # no room for the chart, nor for the labels' column
        return
    site, row, tops = (
        found.answer,
        rows[_selected(scene)],
        np.flatnonzero(planes.style[:, 1] == Ink.LABEL_ON),
    )
    tracks = [stream.track for stream in row.streams]
    if not len(tops) or site.call.track not in tracks:
        return
    top = int(tops[0])
    first = top + row.folded(merged=TIMELINE_STATE.of(scene.state).merged)
    # The calls are the last of the lanes of a thread.
    called = first + len(tracks) - 1 - tracks[::-1].index(site.call.track)
    works = first + tracks.index(site.work_track) if site.work_track in tracks else top
    column = (
        scene.state.time.column(lane.shared(at) - scene.findings.origin_ns)
        for at in (site.call.start_ns, site.work_ns)
    )
    put_arrow(planes, gutter(scene), ArrowEnd(called, next(column)), ArrowEnd(works, next(column)))


def _marks(scene: Scene) -> list[StepMark]:
    """Return the steps in view."""
    view = scene.state.time
    return _even(_steps_in(scene, Span(view.left_ns, view.right_ns)), view.cells)


def _steps_in(scene: Scene, span: Span) -> list[Step]:
    return [
        step
        for step in scene.findings.steps
        if step.end_ns > span.start_ns and step.start_ns < span.end_ns
    ]


def _even(steps: Sequence[Step], cells: int) -> list[StepMark]:
    """Return marks of steps; of an even selection of them if there are more than cells."""
    chosen = steps[:: -(-len(steps) // cells) or 1]
    return [StepMark(f"{step.id}", step.start_ns, step.end_ns) for step in chosen]


def _groups(scene: Scene) -> list[tuple[str, ...]]:
    """Return groups of ranks that share a row; pinned and unfolded ranks have their own."""
    ranks, per_row = scene.ranks, TIMELINE_STATE.of(scene.state).ranks_per_lane
    alone = {*scene.state.pins, *scene.state.unfolded, *TIMELINE_STATE.of(scene.state).hosts}
    if per_row == 1:
        return [(rank,) for rank in ranks]
    groups: list[tuple[str, ...]] = []
    together: tuple[str, ...] = ()
    for rank in ranks:
        if rank in alone:
            groups += [together] if together else []
            groups.append((rank,))
            together = ()
            continue
        together = (*together, rank)
        if len(together) == per_row:
            groups.append(together)
            together = ()
    return [*groups, together] if together else groups


def _selected(scene: Scene) -> int:
    rank = scene.state.selection.rank
    return next((i for i, group in enumerate(_groups(scene)) if rank in group), 0)


def rank_rows(scene: Scene) -> list[RankRow]:
    """Return the timeline rows of each rank, in order."""
    found = scene.answers.to(stream_query(scene))
    streams: Streams = {} if found is None or found.answer is None else found.answer
    asked = scene.answers.to(host_query(scene))
    hosts: Mapping[str, HostLanes] = {} if asked is None or asked.answer is None else asked.answer
    limited = scene.answers.to(kernel_query(scene))
    only: Mapping[str, Track] | None = None if limited is None else limited.answer
    lanes = scene.findings.lanes
    return [
        RankRow(
            label=_label(scene, group),
            lanes=tuple(lanes[rank] for rank in group),
            streams=(  # from the host down to the device, the calls next to what they launch
                *(hosts[group[0]].rows if group[0] in hosts else ()),
                *(streams.get(group[0], ()) if group[0] in scene.state.unfolded else ()),
            ),
            note=hosts[group[0]].note if group[0] in hosts else "",
            only=_tracks(group, only),
            ink=_INKS.get(TIMELINE_STATE.of(scene.state).kernels, Ink.COMPUTE),
            pinned=group[0] in scene.state.pins,
        )
        for group in _groups(scene)
    ]


def _label(scene: Scene, group: Sequence[str]) -> str:
    if len(group) == 1:
        return scene.row_name(group[0])
    return f"{rank_name(group[0])}-{rank_name(group[-1])}"


def _tracks(group: Sequence[str], only: Mapping[str, Track] | None) -> tuple[Track, ...] | None:
    if only is None or not all(rank in only for rank in group):
        return None
    return tuple(only[rank] for rank in group)


def _with_minimap(planes: Planes, scene: Scene, span: Span, rows: int) -> Planes:
    """Return the picture with one or two more rows for the whole window."""
    whole = Planes.blank(planes.height + rows, planes.width, Ink.TEXT)
    whole.paste(planes, 0, 0)
    view = scene.state.time
    if scene.findings.minimap is None:
        return whole
    kinds: tuple[What, ...] = ("net", "comp")
    for row, what in enumerate(kinds[:rows]):
        scene.findings.minimap.put(
            whole,
            planes.height + row,
            gutter(scene),
            origin_ns=scene.findings.origin_ns,
            span_ns=(span.start_ns, span.end_ns),
            view_ns=(view.left_ns, view.right_ns),
            what=what,
        )
    return whole


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
        "they show where nothing computes. u: streams, and idle time in the colour of its cause. "
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
        return paint(scene, height, width)

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
        from ccltui.tui.moves.cursor import to_time

        return to_time(scene, place)

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the name of the kernel under the cursor."""
        from ccltui.tui.state.kernel_at import running_at_cursor

        running = running_at_cursor(scene)
        return None if running is None else running.name

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric of the classes of time."""
        return "comm_comp_overlap"

    def measured(self, scene: Scene) -> Span | None:
        """Return the measured area."""
        from ccltui.tui.moves import measured_area

        return measured_area.span(scene)


TIMELINE: Final = TimelinePane()


def _classes_legend(scene: Scene, *, narrow: bool) -> Line:
    """Return the legend of a lane; two rows per rank without colour do not mark exposed parts."""
    if not scene.colour and not TIMELINE_STATE.of(scene.state).merged:
        return [("comp, net below  " if narrow else "compute, network below it  ", Ink.TAB)]
    looks = [
        *zip(_CLASSES, _CLASS_NAMES[narrow], strict=True),
        *((ink, names[narrow]) for track, ink, names in _PARTS if _has(scene, track)),
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


def _has(scene: Scene, track: str) -> bool:
    return any(len(getattr(lane, track).start_ns) for lane in scene.findings.lanes.values())


def _unfolds(scene: Scene) -> bool:
    return bool(scene.state.unfolded or TIMELINE_STATE.of(scene.state).hosts)


def _area_text(scene: Scene) -> str:
    """Describe the measured area of the timeline."""
    if scene.state.area is None:
        return ""
    from ccltui.tui.moves import measured_area

    return measured_area.text(scene)


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
    from ccltui.tui.state.wanted_queries import stream_query

    found, selection = scene.answers.to(stream_query(scene)), scene.state.selection
    rank, at = selection.rank or "", selection.time_ns
    lane = scene.findings.lanes.get(rank)
    if found is None or found.answer is None or lane is None or at is None:
        return "idle"
    import numpy as np

    now = int(lane.own(np.array(scene.findings.origin_ns + at, np.int64)))
    for stream in found.answer.get(rank, ()):
        row = int(stream.start_ns.searchsorted(now, side="right")) - 1
        if stream.track is None and row >= 0 and stream.end_ns[row] > now:
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
    from ccltui.tui.state.kernel_at import running_at_cursor

    running = running_at_cursor(scene)
    if running is None:
        return _idle_text(scene)
    stream = f"s{running.stream} " if running.stream >= 0 else ""
    name = fit(running.name, _KERNEL_NAME).rstrip()
    return f"{stream}{name} {numbers.duration(running.dur_ns)}"
