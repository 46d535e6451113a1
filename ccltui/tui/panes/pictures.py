"""Pictures that are drawn with numpy, so this is imported after the first frame.

Timeline: compute and network of every rank against time. Alignment: lateness by rank and
collective. The board of Ranks: the wait that ranks cause, nodes or groups across, members down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, overload

import numpy as np

from ccltui.draw.alignment_chart import ABSENT, Columns, Rows, align
from ccltui.draw.palette import HEAT, LEVELS, Ink
from ccltui.draw.planes import BLANK, CURSOR, DENSITY, UPPER_HALF, Planes, put_area, put_hits
from ccltui.draw.rank_rows import ArrowEnd, RankRow, StepMark, grown, put_arrow, timeline
from ccltui.draw.text import Column, table, wrap
from ccltui.draw.timeline_chart import Selected, TimeGrid
from ccltui.metrics.view.words import sentence
from ccltui.parsers import numbers
from ccltui.tui.moves import time_moves
from ccltui.tui.moves.cursor import no_collectives, until_read
from ccltui.tui.state.answers import Span, Step
from ccltui.tui.state.pane import gutter
from ccltui.tui.state.pane_states import ALIGNMENT_STATE, TIMELINE_STATE, Among
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import WIDE, Layout
from ccltui.tui.state.wanted_queries import (
    hits_in_view,
    host_query,
    kernel_query,
    launch_query,
    stream_query,
)

if TYPE_CHECKING:
    from ccltui.draw.timeline_chart import Track, What
    from ccltui.metrics.findings.waits.rank_lateness import RankTable
    from ccltui.tui.state.communicator import Communicator
    from ccltui.tui.state.rank_lanes import HostLanes, Streams


T = TypeVar("T")
_TALL = 30
"""Rows of a pane from which two are used for the whole window."""
_INKS = {"communication": Ink.TRANSFER, "copies": Ink.COPY}


def paint_timeline(scene: Scene, height: int, width: int) -> Planes:
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
    return [
        RankRow(
            label=_label(scene, group),
            lanes=_OfRanks(group, lanes.__getitem__),
            streams=(  # from the host down to the device, the calls next to what they launch
                *(hosts[group[0]].rows if group[0] in hosts else ()),
                *(streams.get(group[0], ()) if group[0] in scene.state.unfolded else ()),
            ),
            note=hosts[group[0]].note if group[0] in hosts else "",
            only=_OfRanks(group, lambda rank: lanes[rank].network)
            if alone
            else _tracks(group, only),
            ink=Ink.TRANSFER if alone else ink,
            pinned=group[0] in scene.state.pins,
        )
        for group in _groups(scene)
    ]


class _OfRanks(Sequence[T]):
    """What the ranks of a row have, each made when the row is drawn: few rows are in view."""

    def __init__(self, labels: Sequence[str], get: Callable[[str], T]) -> None:
        self._labels = labels
        self._get = get

    def __len__(self) -> int:
        return len(self._labels)

    @overload
    def __getitem__(self, row: int) -> T: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[T]: ...
    def __getitem__(self, row: int | slice) -> T | Sequence[T]:
        if isinstance(row, slice):
            return type(self)(self._labels[row], self._get)
        return self._get(self._labels[row])


def is_network_alone(scene: Scene) -> bool:
    """Return whether no rank has device work: hosts alone are recorded, and their collectives.

    Ranks then have rows of network alone, so that none is empty.
    """
    return not scene.findings.has_work("compute", "copies")


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


_DETAIL = (
    Column("rank", widest=24),
    Column("arrived", "right", least=9),
    Column("waited", "right", least=8),
    Column("duration", "right", least=8),
    Column("", widest=8),
)
"""Columns that keep their places from one collective to the next: few cells change."""
_LEAST_DETAIL = 5
_MOST_DETAIL = 11
"""Lines with the last eight ranks to arrive: each step of the cursor replaces all of them."""
_LEAST_MOMENT = 6
"""Least lines of the time below: a rule, the ruler, the steps and some ranks."""
_LEAD = 8
"""Part of the time in view that is added before it."""
_MOST_TALL = 3
"""Most lines of a rank: a move of the cursor to another page sends each of them."""


def paint_alignment(scene: Scene, height: int, width: int) -> Planes:
    """Draw the heat map, and below it the selected collective by rank where there is room."""
    communicator = scene.communicator
    empty = no_collectives(scene)
    if communicator is None or empty is not None:
        planes = Planes.blank(height, width, Ink.TEXT)
        for y, line in enumerate(wrap(f"No collectives: {empty}", width - 2)):
            planes.put(1 + y, 1, line, Ink.DIM)
        return planes
    members = _ranks_in_view(scene)
    if not members:  # ranks were chosen, and the communicators are still those of other ranks
        planes = Planes.blank(height, width, Ink.TEXT)
        planes.put(1, 1, "No chosen rank is in this communicator.", Ink.DIM)
        return planes
    rows = Rows.of(len(members), height - 1).rows + 1
    order = [communicator.labels.index(label) for label in members]
    selection = scene.state.selection
    view, floor_ns = scene.state.columns, scene.floor_ns or communicator.drawn_ns
    even = ALIGNMENT_STATE.of(scene.state).linear
    tall = _tall(rows - 1, len(members), height)
    planes = align(
        communicator.presence if scene.disproved else communicator.heat,
        _row_names(scene, members, rows=height - 1),
        Columns(view.first, view.per_cell, view.repeat),
        height=height,
        width=width,
        gutter=gutter(scene),
        floor_ns=floor_ns,
        selected=(
            members.index(selection.rank) if selection.rank in members else -1,
            -1 if selection.k is None else selection.k,
        ),
        order=order,
        colour=scene.colour,
        pinned=[index for index, label in enumerate(members) if label in scene.state.pins],
        top_ns=communicator.top_ns(floor_ns, even=even),
        even=even,
        tall=tall,
    )
    rows = (rows - 1) * tall + 1
    hits = hits_in_view(scene, Among.COLLECTIVES)
    if hits is not None:
        places = hits.places - view.first
        put_hits(planes, gutter(scene), places // view.per_cell * view.repeat)
    closed = scene.state.drawer is None
    k = selection.k
    if closed and height - rows > _LEAST_DETAIL and k is not None and k < len(communicator):
        lines = min(height - rows - 1, _MOST_DETAIL, len(communicator.labels) + 2)
        planes.paste(_detail(scene, communicator, k, lines, width), rows + 1, 0)
        used = rows + lines + 2
        if height - used >= _LEAST_MOMENT and not _is_above_timeline(scene, width):
            planes.paste(_in_time(scene, communicator, height - used, width), used, 0)
    return planes


def _is_above_timeline(scene: Scene, width: int) -> bool:
    state = scene.state
    return width >= WIDE and state.layout is Layout.STACK and not state.maximised


def _in_time(scene: Scene, communicator: Communicator, height: int, width: int) -> Planes:
    """Draw the time of the collectives in view on the ranks above, as Timeline does.

    It follows the columns, not the cursor: a step of the cursor moves one mark.
    """
    view = scene.state.columns
    shown = slice(view.first, view.first + view.shown)
    starts, ends = communicator.first_ns[shown], communicator.start_ns + communicator.dur_ns
    span = scene.findings.span
    members = [label for label in _ranks_in_view(scene) if label in scene.findings.lanes]
    planes = Planes.blank(height, width, Ink.TEXT)
    if not len(starts) or span is None or not members:
        return planes
    last = int(np.where(communicator.present, ends, 0)[shown].max())
    lead = (last - int(starts[0])) // _LEAD  # what the ranks do before the first
    first = max(int(starts[0]) - lead, span.start_ns)
    planes.put(0, 0, "── the same collectives in time ".ljust(width, "─"), Ink.RULER)
    ranks = members[: height - 3]
    planes.paste(around(scene, ranks, Span(first, last + 1), height - 1, width), 1, 0)
    return planes


def _tall(rows: int, ranks: int, height: int) -> int:
    """Return the lines of a rank: more than one where what is below leaves room for them."""
    below = min(ranks + 3, _MOST_DETAIL + 1)
    return min(max((height - 1 - below) // rows, 1), _MOST_TALL)


def _row_names(scene: Scene, members: Sequence[str], rows: int) -> list[str]:
    """Return the names of ranks, with their hosts where each rank has a row of its own."""
    alone = len(members) <= rows
    return [scene.row_name(label) if alone else rank_name(label) for label in members]


def _ranks_in_view(scene: Scene) -> tuple[str, ...]:
    """Return pinned ranks and the page of other ranks that contains the selected one."""
    members, shown = scene.members, ALIGNMENT_STATE.of(scene.state).ranks_in_view
    if not shown or shown >= len(members):
        return members
    pins = tuple(label for label in members if label in scene.state.pins)
    rest = [label for label in members if label not in pins]
    page = max(shown - len(pins), 1)
    rank = scene.state.selection.rank
    at = rest.index(rank) if rank in rest else 0
    first = min(at // page * page, max(len(rest) - page, 0))
    return (*pins, *rest[first : first + page])


def _detail(scene: Scene, communicator: Communicator, k: int, height: int, width: int) -> Planes:
    """Draw every rank of one collective in order of arrival, the last first."""
    planes = Planes.blank(height, width, Ink.TEXT)
    late = np.where(communicator.present[k], 0, ABSENT)
    late = late if scene.disproved else communicator.late_ns[k]
    order = np.argsort(-late, kind="stable").tolist()
    rows = [_arrival(communicator, k, member, proven=not scene.disproved) for member in order]
    lines = table(_DETAIL, rows, width - 2)
    kind = communicator.kind[communicator.kind_id[k]]
    by = "not proven to be the same on all ranks" if scene.disproved else "by arrival"
    planes.put_fitted(0, 1, f"{communicator.name} {kind} #{numbers.count(k)}, {by}", Ink.STRONG)
    planes.put(1, 1, lines[0], Ink.DIM)
    for index, (member, line) in enumerate(zip(order, lines[1:], strict=True)):
        on = communicator.labels[member] == scene.state.selection.rank
        planes.put(2 + index, 0, ("▶" if on else " ") + line, Ink.LABEL_ON if on else Ink.TEXT)
    hidden = len(order) - (height - 2)
    if hidden > 0:
        planes.put(
            height - 1, 1, f"… {hidden + 1} more ranks; enter lists all".ljust(width - 1), Ink.DIM
        )
    return planes


def _arrival(communicator: Communicator, k: int, member: int, *, proven: bool) -> list[str]:
    name = rank_name(communicator.labels[member])
    if not communicator.present[k, member]:
        return [name, "absent", "", "", ""]
    late, wait = int(communicator.late_ns[k, member]), int(communicator.wait_ns[k, member])
    return [
        name,
        "--" if late == ABSENT or not proven else numbers.signed_duration(late),
        "--" if wait == ABSENT or not proven else numbers.duration(wait),
        numbers.duration(int(communicator.dur_ns[k, member])),
        "◀ last" if proven and member == communicator.last[k] else "",
    ]


Levels = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
_GUTTER: Final = 7
_DECADES: Final = 3.0
"""Waits so many powers of ten below the largest have the lowest colour above none."""
_MOST_ROWS: Final = 16


def wait_board(
    level: Levels,
    names: list[str],
    height: int,
    width: int,
    *,
    selected: str | None,
    colour: bool,
) -> Planes:
    """Draw the board.

    Args:
        level: See `wait_levels`.
        names: Names of the folds that are across.
        height: Most rows; the board takes as many as its members need, two a row.
        width: Columns.
        selected: Name of the fold to mark.
        colour: Whether cells are coloured, otherwise they are denser characters.
    """
    cells = max(width - _GUTTER - 1, 1)
    per_cell = -(-level.shape[1] // cells)
    per_half = max(1, -(-level.shape[0] // (2 * max(min(height, _MOST_ROWS) - 1, 1))))
    small = _largest(level, per_half, per_cell)
    if small.shape[0] % 2:
        small = np.pad(small, ((0, 1), (0, 0)))
    upper, lower = small[::2], small[1::2]
    planes = Planes.blank(1 + len(upper), width, Ink.TEXT)
    _ruler(planes, names, per_cell, selected)
    for row in range(len(upper)):
        planes.put(1 + row, 1, str(2 * row * per_half), Ink.LABEL)
    area = (slice(1, 1 + len(upper)), slice(_GUTTER, _GUTTER + small.shape[1]))
    if colour:
        planes.glyph[area] = np.where(upper == lower, BLANK, UPPER_HALF)
        planes.style[area] = HEAT + upper * LEVELS + lower
    else:
        planes.glyph[area] = DENSITY[np.maximum(upper, lower)]
    return planes


def wait_levels(table: RankTable, kind: str) -> Levels:
    """Return the level of colour of each member (rows) of each fold (columns)."""
    columns = table.members[kind]
    most = max((one.caused_us or 0.0 for one in table.ranks.values()), default=0.0)
    level = np.zeros((max(map(len, columns.values())), len(columns)), np.uint8)
    for x, members in enumerate(columns.values()):
        for y, label in enumerate(members):
            caused = 0.0 if label is None else table.ranks[label].caused_us or 0.0
            if caused > 0:
                share = 1 + math.log10(caused / most) / _DECADES
                level[y, x] = 1 + max(0, min(LEVELS - 2, int(share * (LEVELS - 1))))
    return level


def _largest(level: Levels, per_row: int, per_column: int) -> Levels:
    """Largest level of so many rows and columns."""
    rows, columns = level.shape
    padded = np.pad(level, ((0, -rows % per_row), (0, -columns % per_column)))
    parts = padded.reshape(-1, per_row, padded.shape[1] // per_column, per_column)
    found: Levels = parts.max(axis=(1, 3))
    return found


def _ruler(planes: Planes, names: list[str], per_cell: int, selected: str | None) -> None:
    planes.style[0] = Ink.RULER
    planes.put(0, 0, f" ×{per_cell}", Ink.RULER)
    if selected in names:
        x = _GUTTER + names.index(selected) // per_cell
        fits = x + 2 + len(selected) <= planes.width
        planes.put(0, x + 2 if fits else max(x - 1 - len(selected), 0), selected, Ink.RULER)
        planes.put(0, x, CURSOR, Ink.CURSOR)
