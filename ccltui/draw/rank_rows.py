"""Draw ranks against time: rows of one rank or the mean of several, and unfolded streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.draw import glyphs
from ccltui.draw.alignment_chart import PIN
from ccltui.draw.lanes import Lane, Track
from ccltui.draw.palette import CLASSES, MERGED, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.stream_rows import Stream, put_stream
from ccltui.draw.text import fit
from ccltui.draw.timeline_chart import (
    NETWORK_LABEL,
    Selected,
    TimeGrid,
    inherit,
    merged_row,
    put_ruler,
    put_split,
    row_glyphs,
    shaded_row,
    shares,
)
from ccltui.parsers.array_types import I64, U8, U32


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank, or several that share a row with the mean of their coverage.

    ``only`` replaces all work by one kind of it, a track for each lane, in colour ``ink``.
    """

    label: str
    lanes: tuple[Lane, ...]
    streams: tuple[Stream, ...] = ()
    only: tuple[Track, ...] | None = None
    ink: int = Ink.COMPUTE
    pinned: bool = False

    def height(self, *, merged: bool) -> int:
        """Screen rows."""
        one = merged or self.only is not None
        return (1 if one else 2) + len(self.streams)


@dataclass(frozen=True, slots=True)
class StepMark:
    """One step on the ruler, ns since the origin."""

    label: str
    start_ns: int
    end_ns: int


def timeline(
    rows: Sequence[RankRow],
    grid: TimeGrid,
    *,
    height: int,
    width: int,
    gutter: int,
    selected: Selected,
    merged: bool = False,
    colour: bool = True,
    steps: Sequence[StepMark] = (),
) -> Planes:
    """Ruler, steps where there are any, and as many ranks as fit, the selected one among them."""
    planes = Planes.blank(height, width, Ink.TEXT)
    cells = width - gutter
    if cells < 1 or height < 1:
        return planes
    put_ruler(planes, grid, gutter, cells, selected.time_ns)
    if steps:
        _put_steps(planes, 1, gutter, grid, steps)
    y = 2 if steps else 1
    for index in in_view(rows, height - y, selected.row, merged=merged):
        chosen = index == selected.row
        put_rank(planes, y, gutter, rows[index], grid, merged=merged, chosen=chosen, colour=colour)
        y += rows[index].height(merged=merged)
    return planes


def in_view(rows: Sequence[RankRow], room: int, selected: int, *, merged: bool) -> list[int]:
    """Select the visible rows: pinned ones, then the page with the selected one.

    Scrolls by whole pages, so that the picture rarely moves. Pinned rows take at most half of the
    rows.
    """
    heights = [row.height(merged=merged) for row in rows]
    pinned: list[int] = []
    left = room
    for index, row in enumerate(rows):
        if row.pinned and left - heights[index] >= room // 2:
            pinned.append(index)
            left -= heights[index]
    rest = [index for index in range(len(rows)) if index not in pinned]
    page: list[int] = []
    used = 0
    for index in rest:
        if page and used + heights[index] > left:
            if selected in page or selected in pinned:
                break
            page, used = [], 0
        page.append(index)
        used += heights[index]
    return [*pinned, *_filled(page, rest, heights, left)]


def _filled(page: list[int], rest: list[int], heights: Sequence[int], room: int) -> list[int]:
    """Begin the last page earlier where it would leave empty rows."""
    used = sum(heights[index] for index in page)
    before = rest[: rest.index(page[0])] if page else []
    at_end = bool(page) and page[-1] == rest[-1]
    while at_end and before and used + heights[before[-1]] <= room:
        page = [before.pop(), *page]
        used += heights[page[0]]
    return page


def put_rank(
    planes: Planes,
    y: int,
    gutter: int,
    row: RankRow,
    grid: TimeGrid,
    *,
    merged: bool,
    chosen: bool,
    colour: bool = True,
) -> None:
    """The rows of one rank or of several."""
    sign = glyphs.POINTER if chosen else PIN if row.pinned else " "
    text = fit(sign + row.label, gutter - 1)
    planes.put(y, 0, text, Ink.LABEL_ON if chosen else Ink.LABEL)
    if y >= planes.height:
        return
    edges = [lane.own(grid.edges_ns(planes.width - gutter)) for lane in row.lanes]
    if row.only is not None:
        planes.glyph[y, gutter:], _ = _mean(row.only, edges)
        planes.style[y, gutter:] = row.ink
    elif merged and not colour:
        planes.glyph[y, gutter:] = shaded_row(row.lanes[0], edges[0])
    elif merged and len(row.lanes) == 1:
        glyph, style = merged_row(row.lanes[0], edges[0])
        planes.glyph[y, gutter:], planes.style[y, gutter:] = glyph, style
    else:
        _put_busy(planes, y, gutter, row, edges, merged=merged)
    y += row.height(merged=merged) - len(row.streams)
    for offset, stream in enumerate(row.streams):
        if y + offset < planes.height:
            put_stream(planes, y + offset, gutter, stream, edges[0])


def _put_busy(
    planes: Planes, y: int, gutter: int, row: RankRow, edges: Sequence[I64], *, merged: bool
) -> None:
    if merged or y + 1 >= planes.height:
        glyph, style = _merged_mean(row.lanes, edges)
        planes.glyph[y, gutter:], planes.style[y, gutter:] = glyph, style
        return
    planes.put(y + 1, gutter - len(NETWORK_LABEL) - 1, NETWORK_LABEL, Ink.DIM)
    if len(row.lanes) == 1:
        put_split(planes, y, gutter, row.lanes[0], edges[0])
        return
    planes.glyph[y, gutter:], _ = _mean([lane.compute for lane in row.lanes], edges)
    planes.style[y, gutter:] = Ink.COMPUTE
    planes.glyph[y + 1, gutter:], network = _mean([lane.network for lane in row.lanes], edges)
    _, both = _mean([lane.both for lane in row.lanes], edges)
    style = np.where(2 * both > network, Ink.OVERLAPPED, Ink.EXPOSED).astype(np.uint8)
    planes.style[y + 1, gutter:] = inherit(style, network == 0)


def _mean(tracks: Sequence[Track], edges: Sequence[I64]) -> tuple[U32, I64]:
    """Heights of the mean coverage, and the summed coverage; a single track keeps exact edges."""
    if len(tracks) == 1:
        sample = tracks[0].sample(edges[0])
        return row_glyphs(sample, edges[0]), sample.covered_ns
    pairs = zip(tracks, edges, strict=True)
    covered: I64 = np.sum([track.covered_ns(own) for track, own in pairs], axis=0)
    room = np.maximum(np.diff(edges[0]), 1) * len(tracks)
    return glyphs.HEIGHTS[np.minimum(-(-covered * 8 // room), 8)], covered


def _merged_mean(lanes: Sequence[Lane], edges: Sequence[I64]) -> tuple[U32, U8]:
    """Compute and network in one row: the two largest classes of each cell, over all lanes."""
    tracks = ([getattr(lane, name) for lane in lanes] for name in ("compute", "network", "both"))
    covered = [_mean(track, edges)[1] for track in tracks]
    glyph, foreground, background = shares(np.diff(edges[0]) * len(lanes), *covered)
    full = glyph == glyphs.FULL
    background[full] = foreground[full]
    glyph[full] = glyphs.BLANK
    return glyph, (MERGED + foreground * CLASSES + background).astype(np.uint8)


def _put_steps(
    planes: Planes, y: int, gutter: int, grid: TimeGrid, steps: Sequence[StepMark]
) -> None:
    """Mark the begin of each step, with its number if all of it fits before the next one."""
    if y >= planes.height:
        return
    planes.style[y] = Ink.RULER
    planes.put(y, 1, "step", Ink.DIM)
    cells, free = planes.width - gutter, 0
    for step in steps:
        left = grid.column(step.start_ns)
        right = min(grid.column(step.end_ns - 1) + 1, cells)
        begin = max(left, 0)
        if right <= 0 or begin >= cells or begin < free:
            continue
        tick = glyphs.TICK if left >= 0 else ""
        # A number is whole or left out: the beginning of one would be that of another step.
        fits = begin + len(tick + step.label) <= right
        planes.put(y, gutter + begin, tick + step.label if fits else tick, Ink.RULER)
        free = begin + len(tick + step.label) if fits else begin
