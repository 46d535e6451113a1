"""Find the cells of console tables: column edges from the ruler, else from blanks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Span = tuple[int, int]
"""First column, column after the last."""

_RULER = re.compile(r"^\s{0,4}-+(?:  -+){2,}\s*$")
_TOKENS = re.compile(r"\S+(?: \S+)*")
_MIN_GAP = 2


def is_ruler(line: str) -> bool:
    """Return whether a line is the ruler below a header: a run of dashes per column."""
    return _RULER.match(line) is not None


def header_tokens(line: str) -> list[tuple[str, Span]]:
    """Return the names in a header line, separated by two or more blanks, and their spans."""
    return [(match[0], match.span()) for match in _TOKENS.finditer(line)]


def ruler_spans(ruler: str) -> list[Span]:
    """Return the spans of the columns: the runs of dashes."""
    return [match.span() for match in re.finditer("-+", ruler)]


def slice_row(line: str, spans: Sequence[Span]) -> list[str] | None:
    """Return the cells of a row, None for a line with text between two columns: it is no row."""
    gaps = [line[left[1] : right[0]] for left, right in pairwise(spans)]
    if any(not gap.isspace() for gap in gaps if gap) or line[: spans[0][0]].strip():
        return None
    cells = [line[start:end].strip() for start, end in spans[:-1]]
    return [*cells, line[spans[-1][0] :].strip()]


def split_row(line: str, count: int) -> list[str] | None:
    """Return the cells of a row whose blanks were changed, as by a copy from a page.

    None where the cells, parted by two or more blanks, are not ``count`` many.
    """
    cells = [token for token, _ in header_tokens(line.strip())]
    return cells if len(cells) == count else None


def data_spans(rows: Sequence[str]) -> list[Span]:
    """Return spans that some row fills, separated by two or more characters blank in all rows."""
    filled = _filled(rows)
    columns = np.flatnonzero(filled)
    if not len(columns):
        return []
    breaks = np.flatnonzero(np.diff(columns) > _MIN_GAP)
    starts = columns[np.concatenate([[0], breaks + 1])].tolist()
    ends = (columns[np.concatenate([breaks, [-1]])] + 1).tolist()
    return list(zip(starts, ends, strict=True))


def assign(
    runs: Sequence[Span], headers: Sequence[Span], may_match: Callable[[int, int], bool]
) -> list[int] | None:
    """Assign headers to runs of filled characters, in order, with the smallest sum of distances.

    Overlapping spans have no distance, and more overlap is better.

    Args:
        runs: Spans of the filled characters of the rows.
        headers: Spans of the headers.
        may_match: Whether the content of a run (index) is possible under a header (index).

    Returns:
        The index of the header of each run, None if no assignment is possible.
    """
    count, total = len(runs), len(headers)
    if count > total:
        return None
    cost = np.full((count + 1, total + 1), np.inf)
    cost[0] = 0.0
    for i in range(1, count + 1):
        for j in range(i, total + 1):
            here = np.inf
            if may_match(i - 1, j - 1):
                here = cost[i - 1, j - 1] + _distance(runs[i - 1], headers[j - 1])
            cost[i, j] = min(cost[i, j - 1], here)
    if not np.isfinite(cost[count, total]):
        return None
    chosen: list[int] = []
    j = total
    for i in range(count, 0, -1):
        while cost[i, j - 1] == cost[i, j]:
            j -= 1
        j -= 1
        chosen.append(j)
    return chosen[::-1]


def drawn_spans(border: str) -> list[Span]:
    """Return the spans of the cells between the plus signs of ``+---+---+``."""
    marks = [match.start() for match in re.finditer(r"\+", border)]
    return [(left + 1, right) for left, right in pairwise(marks)]


def _filled(rows: Sequence[str]) -> npt.NDArray[np.bool_]:
    filled = np.zeros(max((len(row) for row in rows), default=0), np.bool_)
    for row in rows:
        codes = np.frombuffer(row.encode("utf-32-le"), np.uint32)
        filled[: len(codes)] |= codes != ord(" ")
    return filled


def _distance(run: Span, header: Span) -> float:
    overlap = min(run[1], header[1]) - max(run[0], header[0])
    if overlap < 0:
        return float(-overlap)
    return -overlap / 1000.0
