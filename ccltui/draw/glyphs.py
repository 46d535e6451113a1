"""Characters of cells: coverage levels, and their replacements on a plain ASCII terminal."""

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
"""A box that begins inside a cell: the nearest character, as there are no right-aligned eighths."""
DENSITY: Final = _codes(" .:-=+*#")
"""Characters of lag levels without colour."""
BLANK: Final = ord(" ")
FULL: Final = ord("█")
UPPER_HALF: Final = ord("▀")
CURSOR: Final = "▼"
TICK: Final = "╷"
HIT: Final = "▴"
POINTER: Final = "▶"
