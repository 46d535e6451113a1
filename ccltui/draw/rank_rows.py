"""Draw ranks against time: a row or two for each, and below it the unfolded lanes of its threads.

Lanes have the names that fit, and an arrow leads from the launch of device work to its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.alignment_chart import PIN
from ccltui.draw.palette import BOX, CLASSES, MERGED, Ink
from ccltui.draw.planes import BLANK, CURSOR, FULL, HEIGHTS, POINTER, TICK, Planes
from ccltui.draw.text import clean, fit, fit_middle
from ccltui.draw.timeline_chart import (
    NETWORK_LABEL,
    Covered,
    Lane,
    Selected,
    TimeGrid,
    Track,
    inherit,
    merged_row,
    put_rows,
    put_ruler,
    put_split,
    row_glyphs,
    shaded_row,
    shares,
    tall_glyphs,
)
from ccltui.parsers.array_types import I32, I64, U8, U32

INKS = (Ink.COMPUTE, Ink.TRANSFER, Ink.COPY)
_NAMED = 6
"""Minimum width of a kernel with its name, in cells."""
_MOST_SCANNED = 200_000
"""Most pieces of work in view among which long ones are looked for: in a millisecond or so."""


class Stream(Struct, frozen=True):
    """Work of one stream, or ranges of one thread, on the rank's own clock, in order of start.

    ``parts`` are the times of each kind of work, of a stream computing, communication and copies;
    ``kind`` (uint8) is the index of each piece of work into them, and ``inks`` are their colours.
    ``text`` returns the name of a name id. ``track`` is the place of the stream or thread among
    the tracks of the trace, None for a lane of neither.
    """

    label: str
    work: Track
    parts: tuple[Track, ...]
    start_ns: I64
    end_ns: I64
    kind: U8
    name: I32
    text: Callable[[int], str]
    inks: tuple[Ink, ...] = INKS
    track: int | None = None


def put_stream(planes: Planes, y: int, gutter: int, stream: Stream, edges_ns: I64) -> None:
    """Draw one row: height by busy time, colour by the largest class, names in long boxes."""
    planes.put(y, 0, fit(stream.label, gutter - 1, align="right"), Ink.DIM)
    planes.glyph[y, gutter:] = row_glyphs(stream.work.sample(edges_ns), edges_ns)
    covered = np.stack([part.covered_ns(edges_ns) for part in stream.parts])
    style = np.array(stream.inks, np.uint8)[covered.argmax(axis=0)]
    planes.style[y, gutter:] = inherit(style, covered.sum(axis=0) == 0)
    _put_names(planes, y, gutter, stream, edges_ns)


def _put_names(planes: Planes, y: int, gutter: int, stream: Stream, edges_ns: I64) -> None:
    """Write the names of kernels that are long enough."""
    first = max(int(stream.start_ns.searchsorted(edges_ns[0], side="right")) - 1, 0)
    last = int(stream.start_ns.searchsorted(edges_ns[-1]))
    cells = len(edges_ns) - 1
    if last - first > _MOST_SCANNED:
        return
    starts, ends = stream.start_ns[first:last], stream.end_ns[first:last]
    long = np.flatnonzero(ends - starts >= (_NAMED - 1) * (edges_ns[1] - edges_ns[0]))
    left = np.maximum(edges_ns.searchsorted(starts[long]), 0)
    right = np.minimum(edges_ns.searchsorted(ends[long], side="right") - 1, cells)
    for row in np.flatnonzero(right - left >= _NAMED).tolist():
        at = first + int(long[row])
        start, end, kind = int(left[row]), int(right[row]), int(stream.kind[at])
        name = fit(clean(stream.text(int(stream.name[at]))), end - start - 1)
        planes.put(y, gutter + start, name.ljust(end - start), BOX + stream.inks[kind])


_DOWN, _ALONG, _ARRIVES = "│", "─", "▶"


class ArrowEnd(Struct, frozen=True):
    """One end of an arrow: a row of the picture, and a column of the chart, in view or not."""

    row: int
    column: int


def put_arrow(planes: Planes, gutter: int, launch: ArrowEnd, work: ArrowEnd) -> None:
    """Draw down from the launch to the row of the work, and along it to the start of the work.

    Along the row only blank cells are drawn on. An end out of view is marked at the edge; nothing
    is drawn where both ends are beyond one edge.
    """
    cells = planes.width - gutter
    ends = launch.column, work.column
    if cells < 1 or max(ends) < 0 or min(ends) >= cells:
        return
    from_x, to_x = (gutter + min(max(column, 0), cells - 1) for column in ends)
    for y in range(min(launch.row, work.row) + 1, max(launch.row, work.row)):
        planes.put(y, from_x, _DOWN, Ink.KEY)
    if 0 <= work.row < planes.height:
        left, right = sorted((from_x, to_x))
        blank = left + np.flatnonzero(planes.glyph[work.row, left : right + 1] == BLANK)
        planes.glyph[work.row, blank], planes.style[work.row, blank] = ord(_ALONG), Ink.KEY
    planes.put(work.row, to_x, _ARRIVES, Ink.CURSOR)
    planes.put(launch.row, from_x, CURSOR, Ink.CURSOR)


_MOST_TALL = 4
"""Most screen rows for compute and for network of one rank."""
COPIES_LABEL = "copy"


class RankRow(Struct, frozen=True):
    """One rank, or several that share a row with the mean of their coverage.

    ``only`` replaces all work by one kind of it, a track for each lane, in colour ``ink``.
    ``streams`` are the unfolded lanes, and ``note`` is what of them is not drawn. Compute and
    network are ``tall`` rows each; ``copies`` is whether copies have a row below them.
    """

    label: str
    lanes: Sequence[Lane]
    streams: tuple[Stream, ...] = ()
    only: Sequence[Track] | None = None
    ink: int = Ink.COMPUTE
    pinned: bool = False
    note: str = ""
    tall: int = 1
    copies: bool = False

    def height(self, *, merged: bool) -> int:
        """Screen rows."""
        return self.folded(merged=merged) + len(self.streams) + bool(self.note)

    def folded(self, *, merged: bool) -> int:
        """Screen rows without the unfolded lanes."""
        if merged:
            return 1
        return self.tall if self.only is not None else 2 * self.tall + self.copies


class StepMark(Struct, frozen=True):
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
    fits = sum(row.height(merged=merged) for row in rows) <= height - y
    # What does not fit is announced in the last row.
    shown = in_view(rows, height - y - (not fits), selected.row, merged=merged)
    for index in shown:
        chosen = index == selected.row
        put_rank(planes, y, gutter, rows[index], grid, merged=merged, chosen=chosen, colour=colour)
        y += rows[index].height(merged=merged)
    if not fits:
        _put_missing(planes, gutter, rows, shown, y - height + 1)
    return planes


def _put_missing(
    planes: Planes, gutter: int, rows: Sequence[RankRow], shown: Sequence[int], cut: int
) -> None:
    """Announce what does not fit: lanes of the last rank in view, and other ranks."""
    parts = []
    if shown and cut > 0:
        parts.append(f"{cut} more {'lane' if cut == 1 else 'lanes'} of {rows[shown[-1]].label}")
    others = sum(len(row.lanes) for row in rows) - sum(len(rows[index].lanes) for index in shown)
    if others:
        parts.append(f"{others} more {'rank' if others == 1 else 'ranks'}")
    y = planes.height - 1
    planes.glyph[y], planes.style[y] = BLANK, Ink.TEXT
    planes.put_fitted(y, gutter, "… " + ", ".join(parts), Ink.DIM)


def grown(rows: Sequence[RankRow], room: int, *, merged: bool, steps: bool) -> list[RankRow]:
    """Return the rows in all of the room: first copies have a row, then all rows grow alike.

    Args:
        rows: Rows of compute and network of one screen row each.
        room: Screen rows for the ruler, the steps and all ranks.
        merged: Whether a rank has one row; these do not grow, as the user chose small ones.
        steps: Whether the steps have a row.
    """
    best = list(rows)
    room -= 2 if steps else 1
    if merged or not _if_fits(best, room):  # of ten thousand ranks no lane is looked at
        return best
    if any(_has_copies(row) for row in rows):
        best = _if_fits([replace(row, copies=_has_copies(row)) for row in best], room) or best
    for tall in range(2, _MOST_TALL + 1):
        best = _if_fits([_of_height(row, tall) for row in best], room) or best
    return best


def _of_height(row: RankRow, tall: int) -> RankRow:
    # The mean of several ranks is drawn in one row: it has no exact edges.
    return replace(row, tall=tall) if len(row.lanes) == 1 else row


def _has_copies(row: RankRow) -> bool:
    return len(row.lanes) == 1 and row.only is None and len(row.lanes[0].copies.start_ns) > 0


def _if_fits(rows: list[RankRow], room: int) -> list[RankRow] | None:
    return rows if sum(row.height(merged=False) for row in rows) <= room else None


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
    sign = POINTER if chosen else PIN if row.pinned else " "
    text = fit(fit_middle(sign + row.label, gutter - 1), gutter - 1)
    planes.put(y, 0, text, Ink.LABEL_ON if chosen else Ink.LABEL)
    if y >= planes.height:
        return
    edges = [lane.own(grid.edges_ns(planes.width - gutter)) for lane in row.lanes]
    if row.only is not None and len(row.lanes) == 1:
        glyph = tall_glyphs(row.only[0].sample(edges[0]), edges[0], 1 if merged else row.tall)
        put_rows(planes, y, gutter, glyph, row.ink)
    elif row.only is not None:
        planes.glyph[y, gutter:], _ = _mean(row.only, edges)
        planes.style[y, gutter:] = row.ink
    elif merged and not colour:
        planes.glyph[y, gutter:] = shaded_row(row.lanes[0], edges[0])
    elif merged and len(row.lanes) == 1:
        glyph, style = merged_row(row.lanes[0], edges[0])
        planes.glyph[y, gutter:], planes.style[y, gutter:] = glyph, style
    else:
        _put_busy(planes, y, gutter, row, edges, merged=merged)
    y += row.folded(merged=merged)
    for offset, stream in enumerate(row.streams):
        if y + offset < planes.height:
            put_stream(planes, y + offset, gutter, stream, edges[0])
    if row.note and y + len(row.streams) < planes.height:
        planes.put_fitted(y + len(row.streams), gutter, row.note, Ink.DIM)


def _put_busy(
    planes: Planes, y: int, gutter: int, row: RankRow, edges: Sequence[I64], *, merged: bool
) -> None:
    if merged or y + 1 >= planes.height:
        glyph, style = _merged_mean(row.lanes, edges)
        planes.glyph[y, gutter:], planes.style[y, gutter:] = glyph, style
        return
    below = [(row.tall, NETWORK_LABEL), *([(2 * row.tall, COPIES_LABEL)] if row.copies else [])]
    for offset, label in below:
        planes.put(y + offset, gutter - len(label) - 1, label, Ink.DIM)
    if len(row.lanes) == 1:
        put_split(planes, y, gutter, row.lanes[0], edges[0], tall=row.tall, copies=row.copies)
        return
    planes.glyph[y, gutter:], _ = _mean([lane.compute for lane in row.lanes], edges)
    planes.style[y, gutter:] = Ink.COMPUTE
    planes.glyph[y + 1, gutter:], _ = _mean([lane.network for lane in row.lanes], edges)
    planes.style[y + 1, gutter:] = _summed(row.lanes, edges).network_style()


def _mean(tracks: Sequence[Track], edges: Sequence[I64]) -> tuple[U32, I64]:
    """Heights of the mean coverage, and the summed coverage; a single track keeps exact edges."""
    if len(tracks) == 1:
        sample = tracks[0].sample(edges[0])
        return row_glyphs(sample, edges[0]), sample.covered_ns
    pairs = zip(tracks, edges, strict=True)
    covered: I64 = np.sum([track.covered_ns(own) for track, own in pairs], axis=0)
    room = np.maximum(np.diff(edges[0]), 1) * len(tracks)
    return HEIGHTS[np.minimum(-(-covered * 8 // room), 8)], covered


def _merged_mean(lanes: Sequence[Lane], edges: Sequence[I64]) -> tuple[U32, U8]:
    """Compute and network in one row: the two largest classes of each cell, over all lanes."""
    cells = np.diff(edges[0]) * len(lanes)
    glyph, foreground, background = shares(cells, _summed(lanes, edges))
    full = glyph == FULL
    background[full] = foreground[full]
    glyph[full] = BLANK
    return glyph, (MERGED + foreground * CLASSES + background).astype(np.uint8)


def _summed(lanes: Sequence[Lane], edges: Sequence[I64]) -> Covered:
    pairs = zip(lanes, edges, strict=True)
    return Covered(*np.sum([Covered.of(lane, own) for lane, own in pairs], axis=0))


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
        tick = TICK if left >= 0 else ""
        # A number is whole or left out: the beginning of one would be that of another step.
        fits = begin + len(tick + step.label) <= right
        planes.put(y, gutter + begin, tick + step.label if fits else tick, Ink.RULER)
        free = begin + len(tick + step.label) if fits else begin
