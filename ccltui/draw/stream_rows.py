"""Draw the streams of one rank against time: one row each, with names of kernels that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ccltui.draw.lanes import Track
from ccltui.draw.palette import CLASSES, MERGED, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import clean, fit
from ccltui.draw.timeline_chart import inherit, row_glyphs
from ccltui.parsers.array_types import I32, I64, U8

INKS = (Ink.COMPUTE, Ink.EXPOSED, Ink.COPY)
_NAMED = 6
"""Minimum width of a kernel with its name, in cells."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Work of one stream on the rank's own clock, in order of start.

    ``parts`` are the times of computing, communication and copies; ``kind`` (int8) is the
    index of each piece of work into them; ``text`` returns the name of a name id.
    """

    label: str
    work: Track
    parts: tuple[Track, Track, Track]
    start_ns: I64
    end_ns: I64
    kind: U8
    name: I32
    text: Callable[[int], str]


def put_stream(planes: Planes, y: int, gutter: int, stream: Stream, edges_ns: I64) -> None:
    """Draw one row: height by busy time, colour by the largest class, names in long boxes."""
    planes.put(y, 0, fit(stream.label, gutter - 1, align="right"), Ink.DIM)
    planes.glyph[y, gutter:] = row_glyphs(stream.work.sample(edges_ns), edges_ns)
    covered = np.stack([part.covered_ns(edges_ns) for part in stream.parts])
    style = np.array(INKS, np.uint8)[covered.argmax(axis=0)]
    planes.style[y, gutter:] = inherit(style, covered.sum(axis=0) == 0)
    _put_names(planes, y, gutter, stream, edges_ns)


def _put_names(planes: Planes, y: int, gutter: int, stream: Stream, edges_ns: I64) -> None:
    """Write the names of kernels that are long enough."""
    first = max(int(stream.start_ns.searchsorted(edges_ns[0], side="right")) - 1, 0)
    last = int(stream.start_ns.searchsorted(edges_ns[-1]))
    cells = len(edges_ns) - 1
    if last - first > cells:
        return
    left = np.maximum(edges_ns.searchsorted(stream.start_ns[first:last]), 0)
    right = np.minimum(edges_ns.searchsorted(stream.end_ns[first:last], side="right") - 1, cells)
    for row in np.flatnonzero(right - left >= _NAMED).tolist():
        start, end, kind = int(left[row]), int(right[row]), int(stream.kind[first + row])
        name = fit(clean(stream.text(int(stream.name[first + row]))), end - start - 1)
        planes.put(y, gutter + start, name.ljust(end - start), _on(kind))


def _on(kind: int) -> int:
    """Style of text on a box: dark on the colour of the kernel's class."""
    if INKS[kind] is Ink.COPY:
        return Ink.COPY
    return MERGED + (1 + kind)  # idle as foreground, the class as background


assert CLASSES == 4
