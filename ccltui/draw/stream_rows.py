"""Draw streams and host threads of one rank against time, with the names that fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from ccltui.draw.lanes import Track
from ccltui.draw.palette import BOX, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import clean, fit
from ccltui.draw.timeline_chart import inherit, row_glyphs
from ccltui.parsers.array_types import I32, I64, U8

INKS = (Ink.COMPUTE, Ink.TRANSFER, Ink.COPY)
_NAMED = 6
"""Minimum width of a kernel with its name, in cells."""
_MOST_SCANNED = 200_000
"""Most pieces of work in view among which long ones are looked for: in a millisecond or so."""


class Stream(Struct, frozen=True):
    """Work of one stream, or ranges of one thread, on the rank's own clock, in order of start.

    ``parts`` are the times of each kind of work, of a stream computing, communication and copies;
    ``kind`` (uint8) is the index of each piece of work into them, and ``inks`` are their colours.
    ``text`` returns the name of a name id. ``track`` is the place of the stream or thread among
    the tracks of the trace, None for a lane of neither.
    """

    label: str
    work: Track
    parts: tuple[Track, ...]
    start_ns: I64
    end_ns: I64
    kind: U8
    name: I32
    text: Callable[[int], str]
    inks: tuple[Ink, ...] = INKS
    track: int | None = None


def put_stream(planes: Planes, y: int, gutter: int, stream: Stream, edges_ns: I64) -> None:
    """Draw one row: height by busy time, colour by the largest class, names in long boxes."""
    planes.put(y, 0, fit(stream.label, gutter - 1, align="right"), Ink.DIM)
    planes.glyph[y, gutter:] = row_glyphs(stream.work.sample(edges_ns), edges_ns)
    covered = np.stack([part.covered_ns(edges_ns) for part in stream.parts])
    style = np.array(stream.inks, np.uint8)[covered.argmax(axis=0)]
    planes.style[y, gutter:] = inherit(style, covered.sum(axis=0) == 0)
    _put_names(planes, y, gutter, stream, edges_ns)


def _put_names(planes: Planes, y: int, gutter: int, stream: Stream, edges_ns: I64) -> None:
    """Write the names of kernels that are long enough."""
    first = max(int(stream.start_ns.searchsorted(edges_ns[0], side="right")) - 1, 0)
    last = int(stream.start_ns.searchsorted(edges_ns[-1]))
    cells = len(edges_ns) - 1
    if last - first > _MOST_SCANNED:
        return
    starts, ends = stream.start_ns[first:last], stream.end_ns[first:last]
    long = np.flatnonzero(ends - starts >= (_NAMED - 1) * (edges_ns[1] - edges_ns[0]))
    left = np.maximum(edges_ns.searchsorted(starts[long]), 0)
    right = np.minimum(edges_ns.searchsorted(ends[long], side="right") - 1, cells)
    for row in np.flatnonzero(right - left >= _NAMED).tolist():
        at = first + int(long[row])
        start, end, kind = int(left[row]), int(right[row]), int(stream.kind[at])
        name = fit(clean(stream.text(int(stream.name[at]))), end - start - 1)
        planes.put(y, gutter + start, name.ljust(end - start), BOX + stream.inks[kind])
