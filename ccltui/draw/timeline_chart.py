"""Draw busy time of ranks against time, exactly at any zoom, and the whole window in one row.

Cell rules: without transition, solid; with one transition, an edge at its place; with more, a
height that is rounded up, so that any activity is visible. A network cell has the colour of the
largest of its classes: transfer, overlapped by computing, waiting or bubble.

A track stores disjoint intervals and the cumulative sum of their lengths, so a cell costs two
binary searches, whatever the number of its events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ccltui.draw.palette import CELL_INKS, CLASSES, MERGED, SHADES, Ink
from ccltui.draw.planes import (
    BLANK,
    CURSOR,
    FULL,
    HEIGHTS,
    LEFT,
    RIGHT,
    Planes,
    put_tick,
    round_step,
    ticks,
)
from ccltui.parsers import numbers
from ccltui.parsers.array_types import I64, U8, U32, Bool


class Sample(Struct, frozen=True):
    """A track on a grid of W cells with W + 1 edges."""

    busy: Bool  # [W + 1] busy at the edge (intervals are half-open)
    transitions: I64  # [W] starts and ends strictly between the edges
    first_ns: I64  # [W] time of the first transition; meaningless where there is none
    covered_ns: I64  # [W] busy time inside the cell


class Track(Struct, frozen=True):
    """Sorted, disjoint, half-open intervals in int64 ns; ``sum_ns[i]`` is the length before i."""

    start_ns: I64
    end_ns: I64
    sum_ns: I64

    @classmethod
    def of(cls, start_ns: I64, end_ns: I64) -> Track:
        """Make a track of intervals that are sorted and disjoint."""
        sums = np.zeros(len(start_ns) + 1, np.int64)
        np.cumsum(end_ns - start_ns, out=sums[1:])
        return cls(start_ns, end_ns, sums)

    @classmethod
    def empty(cls) -> Track:
        """Make a track that is never busy."""
        return cls.of(np.empty(0, np.int64), np.empty(0, np.int64))

    def covered_ns(self, edges_ns: I64) -> I64:
        """Busy time inside the cells between ascending ``edges_ns``, as in :meth:`sample`."""
        if not len(self.end_ns):
            return np.zeros(len(edges_ns) - 1, np.int64)
        started = np.searchsorted(self.start_ns, edges_ns, side="right")
        running = self.end_ns[np.maximum(started - 1, 0)] - edges_ns
        before = self.sum_ns[started] - np.where(started > 0, np.maximum(running, 0), 0)
        return np.diff(before)

    def sample(self, edges_ns: I64) -> Sample:
        """Exact coverage of the cells between ascending ``edges_ns``."""
        started = np.searchsorted(self.start_ns, edges_ns, side="right")
        ended = np.searchsorted(self.end_ns, edges_ns, side="right")
        busy = started > ended
        covered = self.sum_ns[started]
        if len(self.end_ns):
            running = self.end_ns[np.maximum(started - 1, 0)] - edges_ns
            covered = covered - np.where(busy, running, 0)
        return Sample(
            busy=busy,
            transitions=_inside(self.start_ns, started, edges_ns)
            + _inside(self.end_ns, ended, edges_ns),
            first_ns=np.minimum(_at(self.start_ns, started[:-1]), _at(self.end_ns, ended[:-1])),
            covered_ns=np.diff(covered),
        )


def _inside(times: I64, passed: npt.NDArray[np.intp], edges_ns: I64) -> I64:
    """Times strictly between neighbouring edges, where ``passed`` counts those up to each edge."""
    if not len(times):
        return np.zeros(len(edges_ns) - 1, np.int64)
    on_edge = (passed > 0) & (times[passed - 1] == edges_ns)
    inside: I64 = np.diff(passed) - on_edge[1:]
    return inside


_NEVER = np.iinfo(np.int64).max


def _at(times: I64, index: npt.NDArray[np.intp]) -> I64:
    """``times[index]``, or the largest time where the index is one past the last."""
    if not len(times):
        return np.full(len(index), _NEVER, np.int64)
    inside = index < len(times)
    return np.where(inside, times[np.minimum(index, len(times) - 1)], _NEVER)


class Lane(Struct, frozen=True):
    """Busy times of one rank: computation, network, both at once, and copies.

    ``waiting`` for late ranks and the ``bubble`` of a pipeline are disjoint parts of the network
    time that no computation hides.
    Times are on the rank's own clock; ``offset_ns`` is that clock minus the job's, at the job's
    time ``drift_from_ns`` where it drifts, by ``drift`` ns per ns.
    """

    label: str
    compute: Track
    network: Track
    both: Track
    offset_ns: int = 0
    drift: float = 0.0
    drift_from_ns: int = 0
    copies: Track = field(default_factory=Track.empty)
    waiting: Track = field(default_factory=Track.empty)
    bubble: Track = field(default_factory=Track.empty)

    def own(self, times_ns: I64) -> I64:
        """Convert times of the job's clock (int64) to that of the rank."""
        drifted = np.rint((times_ns - self.drift_from_ns) * self.drift).astype(np.int64)
        return np.asarray(times_ns + drifted + self.offset_ns)

    def shared(self, own_ns: int) -> int:
        """Convert a time of the rank's clock to that of the job: the inverse of :meth:`own`."""
        undrifted = own_ns - self.offset_ns
        found = undrifted
        for _ in range(2):  # drifts are parts per million: the second iteration is exact
            found = undrifted - round((found - self.drift_from_ns) * self.drift)
        return found


What = Literal["net", "comp"]
_MOST_LANES = 64
"""Limit of sampled ranks: of more ranks an even selection is drawn."""
_MOST_KEPT = 4


class Minimap:
    """Mean share of network or compute time of all lanes; caches the last drawing.

    The cache pays off because the whole window is the same in every frame, and sampling all lanes
    costs more than the visible ones.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes[:: -(-len(lanes) // _MOST_LANES) or 1]
        self._known: dict[tuple[What, int, int, tuple[int, int]], U32] = {}

    def put(
        self,
        planes: Planes,
        y: int,
        gutter: int,
        *,
        origin_ns: int,
        span_ns: tuple[int, int],
        view_ns: tuple[int, int],
        what: What = "net",
    ) -> None:
        """Draw one row for ``span_ns`` from ``origin_ns``, with the visible part highlighted."""
        cells = planes.width - gutter
        start, end = span_ns
        if cells < 1 or end <= start or not self._lanes:
            return
        edges = start + np.arange(cells + 1, dtype=np.int64) * (end - start) // cells
        key = what, cells, origin_ns, span_ns
        if key not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = self._heights(what, edges, origin_ns)
        planes.put(y, 0, f"{what} %".rjust(gutter - 1), Ink.DIM)
        planes.glyph[y, gutter:] = self._known[key]
        shown = (edges[1:] > view_ns[0]) & (edges[:-1] < view_ns[1])
        planes.style[y, gutter:] = np.where(shown, Ink.AREA, Ink.DIM)

    def _heights(self, what: What, edges: I64, origin_ns: int) -> U32:
        covered = sum(
            _track(lane, what).covered_ns(lane.own(edges + origin_ns)) for lane in self._lanes
        )
        room = np.maximum(np.diff(edges), 1) * len(self._lanes)
        heights: U32 = HEIGHTS[np.minimum(-(-covered * 8 // room), 8)]
        return heights


def _track(lane: Lane, what: What) -> Track:
    return lane.network if what == "net" else lane.compute


NETWORK_LABEL = "net"
_SHADES = np.array([ord(" "), *(ord(SHADES[ink]) for ink in CELL_INKS[1:])], np.uint32)
_NETWORK_INKS = np.array(CELL_INKS[2:], np.uint8)
_WAITING = CELL_INKS.index(Ink.WAITING)
_BUBBLE = CELL_INKS.index(Ink.BUBBLE)


class TimeGrid(Struct, frozen=True):
    """Cells of ``cell_ns``; column 0 begins ``k0 * cell_ns + phase_ns`` after ``origin_ns``."""

    k0: int
    cell_ns: int
    origin_ns: int
    phase_ns: int = 0

    @property
    def left_ns(self) -> int:
        """Time of the left edge, ns since the origin."""
        return self.k0 * self.cell_ns + self.phase_ns

    def column(self, time_ns: int) -> int:
        """Cell of a time since the origin; may be outside the view."""
        return (time_ns - self.left_ns) // self.cell_ns

    def edges_ns(self, cells: int) -> I64:
        """Edges of ``cells`` cells on the job's clock."""
        steps = np.arange(self.k0, self.k0 + cells + 1, dtype=np.int64)
        return steps * self.cell_ns + self.phase_ns + self.origin_ns


class Covered(NamedTuple):
    """Time of a lane, or summed over lanes, in each cell, int64 ns; as the tracks of `Lane`."""

    compute: I64
    network: I64
    both: I64
    waiting: I64
    bubble: I64

    @classmethod
    def of(cls, lane: Lane, edges_ns: I64) -> Covered:
        """Return the times between ascending ``edges_ns`` on the lane's clock."""
        tracks = (lane.compute, lane.network, lane.both, lane.waiting, lane.bubble)
        return cls(*(track.covered_ns(edges_ns) for track in tracks))

    @property
    def transfer(self) -> I64:
        """Network time that is none of the others."""
        return self.network - self.both - self.waiting - self.bubble

    def by_class(self, cell_ns: I64) -> I64:
        """Return the time of each class of `CELL_INKS`, int64 ns [classes, cells]."""
        idle, compute = cell_ns - self.compute - self.network + self.both, self.compute - self.both
        return np.stack([idle, compute, self.transfer, self.both, self.waiting, self.bubble])

    def network_style(self) -> U8:
        """Return the style of each cell of a row of network: that of its largest class."""
        largest = np.stack([self.transfer, self.both, self.waiting, self.bubble]).argmax(axis=0)
        return inherit(_NETWORK_INKS[largest], self.network == 0)


class Selected(Struct, frozen=True):
    """Shared cursor in the timeline: row in ``lanes`` and ns since the origin."""

    row: int
    time_ns: int | None


def put_ruler(planes: Planes, grid: TimeGrid, gutter: int, cells: int, cursor: int | None) -> None:
    """Draw ticks of time in the first row, and the cursor."""
    planes.style[0] = Ink.RULER
    start, end = grid.left_ns, grid.left_ns + cells * grid.cell_ns
    step = round_step(end - start, cells)
    planes.put(0, 0, f"+{numbers.duration(step)}", Ink.RULER)
    for at in ticks(start, end, step):
        put_tick(planes, gutter + grid.column(at), numbers.instant(at, step))
    if cursor is not None:
        put_cursor(planes, gutter, grid.column(cursor), cells)


def put_cursor(planes: Planes, gutter: int, column: int, cells: int) -> None:
    """Mark a column on the ruler if it is in view."""
    if 0 <= column < cells:
        planes.put(0, gutter + column, CURSOR, Ink.CURSOR)


def put_split(
    planes: Planes,
    y: int,
    x: int,
    lane: Lane,
    edges_ns: I64,
    *,
    tall: int = 1,
    copies: bool = False,
) -> None:
    """Draw compute and network by class, ``tall`` rows each, below them ``copies``.

    Without a row of their own, copies are drawn where the rank computes nothing.
    """
    compute = lane.compute.sample(edges_ns)
    network = lane.network.sample(edges_ns)
    glyph = tall_glyphs(compute, edges_ns, tall)
    style = np.full(len(edges_ns) - 1, Ink.COMPUTE, np.uint8)
    if len(lane.copies.start_ns) and not copies:
        copied = lane.copies.sample(edges_ns)
        alone = (compute.covered_ns == 0) & (copied.covered_ns > 0)
        glyph[:, alone] = tall_glyphs(copied, edges_ns, tall)[:, alone]
        style[alone] = Ink.COPY
    put_rows(planes, y, x, glyph, style)
    style = Covered.of(lane, edges_ns).network_style()
    put_rows(planes, y + tall, x, tall_glyphs(network, edges_ns, tall), style)
    if copies:
        copied = lane.copies.sample(edges_ns)
        put_rows(planes, y + 2 * tall, x, tall_glyphs(copied, edges_ns, 1), Ink.COPY)


def put_rows(planes: Planes, y: int, x: int, glyph: U32, style: U8 | int) -> None:
    """Draw rows of one style per column, cut at the lower edge."""
    rows = max(min(len(glyph), planes.height - y), 0)
    planes.glyph[y : y + rows, x:] = glyph[:rows]
    planes.style[y : y + rows, x:] = style


def inherit(style: U8, blank: Bool) -> U8:
    """Give blank cells the style of their left neighbour: same look, longer runs of one style."""
    source = np.where(blank, 0, np.arange(len(style)))
    np.maximum.accumulate(source, out=source)
    return style[source]


def row_glyphs(sample: Sample, edges_ns: I64) -> U32:
    """Characters of one class of one rank, uint32 [cells]."""
    cell = np.diff(edges_ns)
    covered = sample.covered_ns
    glyph = HEIGHTS[-(-covered * 8 // cell)]
    single = sample.transitions == 1
    falling = single & sample.busy[:-1]
    rising = single & ~sample.busy[:-1]
    glyph[falling] = LEFT[np.maximum(covered * 8 // cell, 1)[falling]]
    glyph[rising] = RIGHT[-(-covered * 8 // cell)[rising]]
    glyph[covered == 0] = BLANK
    return glyph


def tall_glyphs(sample: Sample, edges_ns: I64, rows: int) -> U32:
    """Characters of one class of one rank in several rows, uint32 [rows, cells], the top first."""
    if rows == 1:
        return row_glyphs(sample, edges_ns)[None]
    level = -(-sample.covered_ns * 8 * rows // np.diff(edges_ns))
    below = 8 * np.arange(rows - 1, -1, -1)[:, None]
    glyph: U32 = HEIGHTS[np.clip(level - below, 0, 8)]
    edge = sample.transitions == 1
    glyph[:, edge] = row_glyphs(sample, edges_ns)[edge]
    return glyph


def merged_row(lane: Lane, edges_ns: I64) -> tuple[U32, U8]:
    """Draw one row per rank: the two largest classes of each cell as foreground and background."""
    compute, network = lane.compute.sample(edges_ns), lane.network.sample(edges_ns)
    cell = np.diff(edges_ns)
    glyph, foreground, background = shares(cell, Covered.of(lane, edges_ns))
    single = compute.transitions + network.transitions == 1
    first = np.minimum(compute.first_ns, network.first_ns)
    before = compute.busy[:-1] + 2 * network.busy[:-1].astype(np.uint8)
    after = before ^ np.where(compute.transitions == 1, 1, 2)
    for code, track in ((_WAITING, lane.waiting), (_BUBBLE, lane.bubble)):
        part = track.sample(edges_ns)
        together = (part.transitions == 1) & (part.first_ns == first)
        single &= together | (part.transitions == 0)
        before[part.busy[:-1]] = code
        after[part.busy[:-1] ^ (part.transitions == 1)] = code
    glyph[single] = LEFT[((first - edges_ns[:-1])[single] * 8) // cell[single]]
    foreground[single], background[single] = before[single], after[single]
    solid = (glyph == FULL) | (glyph == BLANK)
    shown = np.where(glyph == FULL, foreground, background)
    glyph[solid] = BLANK
    foreground[solid] = background[solid] = shown[solid]
    return glyph, (MERGED + foreground * CLASSES + background).astype(np.uint8)


def shaded_row(lane: Lane, edges_ns: I64) -> U32:
    """Draw one row per rank without colour: the shade of the largest class of each cell."""
    parts = Covered.of(lane, edges_ns).by_class(np.diff(edges_ns))
    return np.asarray(_SHADES[parts.argmax(axis=0)])


def shares(cell: I64, covered: Covered) -> tuple[U32, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Height of the busier class over the other, and the two classes, by covered time."""
    shares = covered.by_class(cell)
    order = np.argsort(-shares, axis=0, kind="stable")[:2]
    upper, lower = order.min(axis=0), order.max(axis=0)
    columns = np.arange(len(cell))
    below, above = shares[lower, columns], shares[upper, columns]
    return HEIGHTS[-(-below * 8 // (below + above))], lower, upper
