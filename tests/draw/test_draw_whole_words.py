"""Truncation is visible: labels are whole or absent, sentences end in an ellipsis."""

from __future__ import annotations

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.ruler import put_tick


def test_a_label_that_has_no_room_leaves_its_tick() -> None:
    planes = Planes.blank(1, 20, Ink.RULER)

    put_tick(planes, 2, "600ms")
    put_tick(planes, 14, "800ms")
    assert planes.row_text(0) == "  ╷600ms      ╷800ms"

    put_tick(planes, 15, "1.2s")
    put_tick(planes, 17, "1.4s")
    assert planes.row_text(0)[14:] == "╷╷1╷2s"


def test_text_up_to_the_edge_leaves_an_ellipsis() -> None:
    planes = Planes.blank(3, 10, Ink.TEXT)

    planes.put_fitted(0, 3, "seven \x1bs", Ink.TEXT)
    planes.put_fitted(1, 3, "seven", Ink.DIM)
    planes.put_fitted(2, 30, "outside", Ink.DIM)

    assert [planes.row_text(y) for y in range(3)] == ["   seven …", "   seven  ", " " * 10]
    assert planes.style[1].tolist() == [Ink.TEXT] * 3 + [Ink.DIM] * 7
