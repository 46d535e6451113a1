"""Draw the Timeline pane: compute and network of every rank against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes, put_area, put_hits
from ccltui.draw.rank_rows import ArrowEnd, RankRow, StepMark, grown, put_arrow, timeline
from ccltui.draw.timeline_chart import Selected, TimeGrid
from ccltui.metrics.view.words import sentence
from ccltui.tui.moves import time_moves
from ccltui.tui.moves.cursor import until_read
from ccltui.tui.state.answers import Span, Step
from ccltui.tui.state.pane import gutter
from ccltui.tui.state.pane_states import TIMELINE_STATE, Among
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.wanted_queries import (
    hits_in_view,
    host_query,
    kernel_query,
    launch_query,
    stream_query,
)

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.draw.timeline_chart import Track, What
    from ccltui.tui.state.rank_lanes import HostLanes, Streams

_TALL = 30
"""Rows of a pane from which two are used for the whole window."""
_INKS = {"communication": Ink.TRANSFER, "copies": Ink.COPY}


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw as many ranks as fit, the selected one among them."""
    span = scene.findings.span
    if span is None:
        planes = Planes.blank(height, width, Ink.TEXT)
        planes.put(1, 1, sentence(until_read(scene, "ranks appear here as they are read")), Ink.DIM)
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
    measured = time_moves.span(scene)
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
    alone = is_network_alone(scene)
    rows = [
        RankRow(
            scene.row_name(label),
            (lanes[label],),
            only=(lanes[label].network,) if alone else None,
            ink=Ink.TRANSFER,
        )
        for label in labels
    ]
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
    found = scene.answers.answer(launch_query(scene))
    lane = scene.findings.lanes.get(scene.state.selection.rank or "")
    if found is None or lane is None:
        return
    if planes.width <= max(gutter(scene), 1):  # no room for the chart, nor for the labels' column
        return
    site, row, tops = (
        found,
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
    streams: Streams = scene.answers.answer(stream_query(scene)) or {}
    hosts: Mapping[str, HostLanes] = scene.answers.answer(host_query(scene)) or {}
    limited = scene.answers.to(kernel_query(scene))
    only: Mapping[str, Track] | None = None if limited is None else limited.answer
    lanes, alone = scene.findings.lanes, limited is None and is_network_alone(scene)
    ink = _INKS.get(TIMELINE_STATE.of(scene.state).kernels, Ink.COMPUTE)
    if alone:
        only, ink = {label: lane.network for label, lane in lanes.items()}, Ink.TRANSFER
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
            ink=ink,
            pinned=group[0] in scene.state.pins,
        )
        for group in _groups(scene)
    ]


def is_network_alone(scene: Scene) -> bool:
    """Return whether no rank has device work: hosts alone are recorded, and their collectives.

    Ranks then have rows of network alone, so that none is empty.
    """
    lanes = scene.findings.lanes.values()
    return not any(len(track.start_ns) for one in lanes for track in (one.compute, one.copies))


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
