"""Draw the Alignment pane: lateness by rank and collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ccltui.draw.alignment_chart import ABSENT, Columns, Rows, align
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes, put_hits
from ccltui.draw.table import Column, table
from ccltui.draw.text import wrap
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import no_collectives
from ccltui.tui.panes.timeline_picture import around
from ccltui.tui.state.answers import Span
from ccltui.tui.state.pane import gutter
from ccltui.tui.state.pane_states import ALIGNMENT_STATE, Among
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import WIDE, Layout
from ccltui.tui.state.wanted_queries import hits_in_view

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.state.communicator import Communicator

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


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw the heat map, and below it the selected collective by rank where there is room."""
    communicator = scene.communicator
    empty = no_collectives(scene)
    if communicator is None or empty is not None:
        planes = Planes.blank(height, width, Ink.TEXT)
        for y, line in enumerate(wrap(f"No collectives: {empty}", width - 2)):
            planes.put(1 + y, 1, line, Ink.DIM)
        return planes
    members = _in_view(scene)
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
        _names(scene, members, rows=height - 1),
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
    members = [label for label in _in_view(scene) if label in scene.findings.lanes]
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


def _names(scene: Scene, members: Sequence[str], rows: int) -> list[str]:
    """Return the names of ranks, with their hosts where each rank has a row of its own."""
    alone = len(members) <= rows
    return [scene.row_name(label) if alone else rank_name(label) for label in members]


def _in_view(scene: Scene) -> tuple[str, ...]:
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
