"""Stacked bars of the parts of a step."""

from __future__ import annotations

from ccltui.draw.composition import put_bar, put_scale
from ccltui.draw.palette import SHADED, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import ASCII

PARTS = {"compute": 30, "overlapped": 10, "waiting": 10, "transfer": 20, "bubble": 10, "idle": 20}


def test_parts_stand_end_to_end_each_in_the_colour_of_its_kind() -> None:
    planes = Planes.blank(1, 12, Ink.TEXT)
    put_bar(planes, 0, 2, PARTS, 100, colour=True)

    assert planes.row_text(0) == "  ████████▒▒"
    assert planes.style[0, 2:].tolist() == [
        *[Ink.COMPUTE] * 3,
        Ink.OVERLAPPED,
        Ink.WAITING,
        *[Ink.TRANSFER] * 2,
        Ink.BUBBLE,
        *[SHADED + Ink.IDLE] * 2,
    ]


def test_without_colour_parts_have_shades() -> None:
    planes = Planes.blank(1, 12, Ink.TEXT)
    put_bar(planes, 0, 2, PARTS, 100, colour=False)

    assert planes.row_text(0) == "  ███░▓▒▒~··"


def test_a_shorter_step_is_a_shorter_bar() -> None:
    planes = Planes.blank(2, 10, Ink.TEXT)
    put_bar(planes, 0, 0, PARTS, 200, colour=False)
    put_bar(planes, 1, 0, dict.fromkeys(PARTS, 0), 0, colour=False)
    put_bar(planes, 7, 0, PARTS, 100, colour=False)

    assert planes.row_text(0) == "██▒▒·     "
    assert planes.row_text(1) == " " * 10


def test_the_scale_begins_at_zero() -> None:
    planes = Planes.blank(1, 34, Ink.TEXT)
    put_scale(planes, 0, 4, 3_000_000)

    assert planes.row_text(0) == "    ╷0                  ╷2 ms     "


def test_shades_have_their_letters_where_only_ascii_is_shown() -> None:
    planes = Planes.blank(1, 10, Ink.TEXT)
    put_bar(planes, 0, 0, PARTS, 100, colour=False)

    assert planes.row_text(0).translate(ASCII) == "###:%==~.."
