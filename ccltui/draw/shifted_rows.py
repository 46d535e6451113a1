"""Find rows of a picture that are horizontally shifted copies of earlier rows."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ccltui.draw.planes import Planes

FURTHEST: Final = 32
"""Largest shift in cells: larger ones rarely match, and the search costs time."""
_WORTHWHILE: Final = 8
"""Least number of cells that must match after the shift and did not before."""


def moved_rows(before: Planes, now: Planes, left: int, guess: int = 0) -> list[tuple[int, int]]:
    """Rows, and the best shift in columns of their cells from ``left`` on.

    Steps of training resemble each other: at the same zoom another step gives the same picture
    except for a fraction of a cell. Shifts by up to ``FURTHEST`` columns and by ``guess`` are
    tried. Both pictures have the same shape; rows with little gain are left out.
    """
    old, new = _cells(before, left), _cells(now, left)
    same = (old == new).sum(axis=1)
    width = old.shape[1]
    rows = np.flatnonzero(width - same >= _WORTHWHILE)
    if not len(rows):
        return []
    near = min(FURTHEST, width - 1)
    tried = np.array([by for by in (guess, *range(-near, near + 1)) if abs(by) < width])
    alike = np.stack([_alike(old[rows], new[rows], int(by)) for by in tried])
    best = alike.argmax(axis=0)
    chosen = np.flatnonzero(alike.max(axis=0) - same[rows] >= _WORTHWHILE)
    return [(int(rows[row]), int(tried[best[row]])) for row in chosen]


def _cells(planes: Planes, left: int) -> npt.NDArray[np.uint64]:
    """Character and style of each cell combined in one number."""
    glyph = planes.glyph[:, left:].astype(np.uint64)
    return np.asarray((glyph << np.uint64(8)) | planes.style[:, left:])


def _alike(
    old: npt.NDArray[np.uint64], new: npt.NDArray[np.uint64], by: int
) -> npt.NDArray[np.intp]:
    """Number of equal cells of each row after shifting the old ones ``by`` columns to the right."""
    width = old.shape[1]
    was = old[:, max(-by, 0) : width - max(by, 0)]
    comes = new[:, max(by, 0) : width + min(by, 0)]
    return np.asarray((was == comes).sum(axis=1))
