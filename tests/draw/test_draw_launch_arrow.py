"""The arrow from a launch to its work: over the lanes between, at the edge out of view."""

from __future__ import annotations

import pytest

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.rank_rows import ArrowEnd, put_arrow


def drawn(launch: int, work: int) -> list[str]:
    planes = Planes.blank(4, 12, Ink.TEXT)
    planes.put(3, 4, "██", Ink.COMPUTE)
    put_arrow(planes, 2, ArrowEnd(0, launch), ArrowEnd(3, work))
    return [planes.row_text(y)[2:] for y in range(4)]


def test_down_from_the_launch_and_along_to_the_work() -> None:
    assert drawn(1, 7) == [" ▼        ", " │        ", " │        ", " ─██───▶  "]


@pytest.mark.parametrize(
    ("launch", "work", "first", "last"),
    [(-5, 7, "▼", "──██───▶  "), (1, 70, " ▼", " ─██─────▶"), (-9, -1, "", "  ██      ")],
)
def test_what_is_out_of_view_is_marked_at_the_edge(
    launch: int, work: int, first: str, last: str
) -> None:
    rows = drawn(launch, work)

    assert (rows[0].rstrip(), rows[3]) == (first, last)
