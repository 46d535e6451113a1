"""Draw the Alignment pane: lateness by rank and collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ccltui.draw.alignment_chart import ABSENT, Columns, Rows, align
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.ruler import put_hits
from ccltui.draw.table import Column, table
from ccltui.draw.text import wrap
from ccltui.parsers import numbers
from ccltui.tui.moves.missing_data import no_collectives
from ccltui.tui.state.name_search import Among
from ccltui.tui.state.own.chart_state import ALIGNMENT_STATE
from ccltui.tui.state.queries.wanted_queries import hits_in_view
from ccltui.tui.state.rank_labels import gutter
from ccltui.tui.state.scene import Scene, rank_name

if TYPE_CHECKING:
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
    planes = align(
        communicator.heat,
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
    )
    hits = hits_in_view(scene, Among.COLLECTIVES)
    if hits is not None:
        places = hits.places - view.first
        put_hits(planes, gutter(scene), places // view.per_cell * view.repeat)
    closed = scene.state.drawer is None
    k = selection.k
    if closed and height - rows > _LEAST_DETAIL and k is not None and k < len(communicator):
        lines = min(height - rows - 1, _MOST_DETAIL)
        planes.paste(_detail(scene, communicator, k, lines, width), rows + 1, 0)
    return planes


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
    late = communicator.late_ns[k]
    order = np.argsort(-late, kind="stable").tolist()
    rows = [_arrival(communicator, k, member) for member in order]
    lines = table(_DETAIL, rows, width - 2)
    kind = communicator.kind[communicator.kind_id[k]]
    planes.put(0, 1, f"{communicator.name} {kind} #{numbers.count(k)}, by arrival", Ink.STRONG)
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


def _arrival(communicator: Communicator, k: int, member: int) -> list[str]:
    name = rank_name(communicator.labels[member])
    if not communicator.present[k, member]:
        return [name, "absent", "", "", ""]
    late, wait = int(communicator.late_ns[k, member]), int(communicator.wait_ns[k, member])
    return [
        name,
        "--" if late == ABSENT else numbers.signed_duration(late),
        "--" if wait == ABSENT else numbers.duration(wait),
        numbers.duration(int(communicator.dur_ns[k, member])),
        "◀ last" if member == communicator.last[k] else "",
    ]
