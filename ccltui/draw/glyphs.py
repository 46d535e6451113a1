"""The characters of cells: ladders of coverage, and what they become on a plain ASCII terminal."""

from __future__ import annotations

from typing import Final

import numpy as np

from ccltui.parsers.array_types import U32


def _codes(text: str) -> U32:
    return np.array([ord(character) for character in text], np.uint32)


HEIGHTS: Final = _codes(" ▁▂▃▄▅▆▇█")
"""Coverage of a cell, in eighths from the bottom."""
LEFT: Final = _codes(" ▏▎▍▌▋▊▉█")
"""A box that ends inside a cell, in eighths from the left."""
RIGHT: Final = _codes(" ▕▕▐▐▐▐██")
"""A box that begins inside a cell: terminals have no right-aligned eighths, so the nearest."""
DENSITY: Final = _codes(" .:-=+*#")
"""Lag levels where there is no colour."""
BLANK: Final = ord(" ")
FULL: Final = ord("█")
UPPER_HALF: Final = ord("▀")
CURSOR: Final = "▼"
TICK: Final = "╷"
HIT: Final = "▴"
POINTER: Final = "▶"
