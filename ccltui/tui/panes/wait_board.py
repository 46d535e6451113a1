"""Board of the wait that ranks cause: nodes or groups across, their members down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.draw.palette import HEAT, LEVELS, Ink
from ccltui.draw.planes import BLANK, CURSOR, DENSITY, UPPER_HALF, Planes

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.findings.waits.rank_lateness import RankTable

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
