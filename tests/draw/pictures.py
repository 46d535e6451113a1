"""Pictures as text: characters of each row, and below them its styles as letters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ccltui.draw.palette import CLASSES, HEAT, MERGED, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.timeline_chart import Lane, Track

_LETTERS = {
    Ink.TEXT: " ",
    Ink.LABEL: "l",
    Ink.LABEL_ON: "L",
    Ink.RULER: "r",
    Ink.CURSOR: "X",
    Ink.DIM: "d",
    Ink.COMPUTE: "c",
    Ink.TRANSFER: "e",
    Ink.OVERLAPPED: "o",
    Ink.WAITING: "w",
    Ink.BUBBLE: "b",
}
_CLASSES = ".ceowb"
_LEVELS = ".1234567"

GOLDEN = Path(__file__).parent / "golden"
Golden = Callable[[str, Planes], None]


def letter(style: int) -> str:
    """One letter a style: heat by its higher level, merged cells by their foreground class."""
    if style >= HEAT:
        upper, lower = divmod(style - HEAT, 8)
        return _LEVELS[max(upper, lower)]
    if style >= MERGED:
        return _CLASSES[(style - MERGED) // CLASSES]
    return _LETTERS[Ink(style)]


def picture(planes: Planes) -> str:
    """Characters and styles of all rows, trailing blanks kept behind a bar."""
    lines = []
    for y in range(planes.height):
        lines.append(f"{planes.row_text(y)}|")
        lines.append("".join(letter(int(style)) for style in planes.style[y]) + ":")
    return "\n".join(lines) + "\n"


def track(*intervals: tuple[int, int]) -> Track:
    """A track from (start, end) pairs."""
    starts = np.array([start for start, _ in intervals], np.int64)
    ends = np.array([end for _, end in intervals], np.int64)
    return Track.of(starts, ends)


def lane(label: str, *, late_us: int = 0, steps: int = 6) -> Lane:
    """A rank that computes 700 us and communicates 400 us a millisecond, 100 us of it hidden."""
    compute, network, both = [], [], []
    for step in range(steps):
        start = step * 1_000_000
        ready = start + 700_000 + late_us * 1000
        end = start + 1_000_000
        compute.append((start, ready))
        network.append((ready - 100_000, end))
        both.append((ready - 100_000, ready))
    return Lane(label, track(*compute), track(*network), track(*both))
