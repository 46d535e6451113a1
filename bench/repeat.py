"""Repeat the events of a small trace file, with later times and new ids.

The text of every event stays as it was written, so a repeated file has the layout, the mix of
events and the arguments of its source. Times, correlations, flow ids, External ids and sequence
numbers are increased by a constant per repetition. Events that name rows or span the whole file
are written once. So are the markers of steps, stretched over all repetitions: large files have
long steps, not thousands of them (the time of one other program is proportional to events times
steps).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

_ID_KEYS = ("correlation", "id", "External id", "external id", "Ev Idx", "Seq")
_MOVED = re.compile(r'"(?P<key>ts|' + "|".join(_ID_KEYS) + r')": (?P<number>[0-9]+)')
_TIME = re.compile(r'("(?:ts|dur)": )([0-9.]+)')
_MARKER = "ProfilerStep#"
_SEPARATOR = re.compile(r"[\s,]*")
_MARGIN_US = 100


class Counts(Struct, frozen=True):
    """Number of events: all, and complete ones except the profiler's own span."""

    events: int
    timed: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.events + other.events, self.timed + other.timed)

    def __mul__(self, times: int) -> Counts:
        return Counts(self.events * times, self.timed * times)


class Steps(Struct, frozen=True):
    """Increase of times and ids from one repetition to the next."""

    time_us: int
    ids: int

    def covering(self, other: Steps) -> Steps:
        """Return the larger of both steps: files of one job must use equal steps."""
        return Steps(max(self.time_us, other.time_us), max(self.ids, other.ids))


class Pattern(Struct, frozen=True):
    """A parsed trace file: text written once, and a template formatted per repetition."""

    before: str  # up to the first event, and the events that name rows
    markers: tuple[str, ...]  # of steps
    form: str  # the repeated events, "%d" in place of every number that moves
    numbers: tuple[tuple[str, int], ...]  # key and first value of each of them
    between: str  # what stands between two events
    after: str
    once: Counts
    each: Counts
    start_us: float
    length_us: float
    steps: Steps

    def texts(self, repetitions: int, steps: Steps | None = None) -> Iterator[str]:
        """Yield the text of the file in pieces, with the events ``repetitions`` times."""
        wide = steps or self.steps
        moves = [wide.time_us if key == "ts" else wide.ids for key, _ in self.numbers]
        yield self.before
        stretch = 1 + (repetitions - 1) * wide.time_us / self.length_us
        for marker in self.markers:
            yield _stretched(marker, self.start_us, stretch) + self.between
        for index in range(repetitions):
            values = tuple(
                value + index * move for (_, value), move in zip(self.numbers, moves, strict=True)
            )
            yield (self.between if index else "") + self.form % values
        yield self.after

    def counts(self, repetitions: int) -> Counts:
        """Return the counts of a file of that many repetitions."""
        return self.once + self.each * repetitions

    @property
    def block_bytes(self) -> int:
        """Approximate bytes of one repetition; later numbers have more digits."""
        return len((self.form % tuple(value for _, value in self.numbers)).encode())


def pattern_of(text: str) -> Pattern:
    """Parse a trace into a pattern. Raises ValueError if it has no list of events."""
    pieces = list(_pieces(text))
    if not pieces:
        raise ValueError("no list of trace events")
    first, last = pieces[0][0], pieces[-1][1]
    between = text[pieces[0][1] : pieces[1][0]] if len(pieces) > 1 else ", "
    fixed, markers, repeated, spans = [], [], [], []
    once = each = Counts(0, 0)
    for start, end, event in pieces:
        is_complete = event.get("ph") == "X"
        spans_file = event.get("cat") == "Trace"
        counted = Counts(1, int(is_complete and not spans_file))
        if event.get("ph") in ("M", "i") or spans_file:
            fixed.append(text[start:end])
            once += counted
        elif str(event.get("name")).startswith(_MARKER):
            markers.append(text[start:end])
            once += counted
        else:
            repeated.append(text[start:end])
            each += counted
            spans.append((float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0))))
    body = between.join(repeated)
    numbers = tuple((match["key"], int(match["number"])) for match in _MOVED.finditer(body))
    start_us = min(start for start, _ in spans)
    length_us = max(end for _, end in spans) - start_us
    ids = (value for key, value in numbers if key in _ID_KEYS)
    return Pattern(
        before=text[:first] + "".join(piece + between for piece in fixed),
        markers=tuple(markers),
        form=_MOVED.sub(r'"\g<key>": %d', body.replace("%", "%%")),
        numbers=numbers,
        between=between,
        after=text[last:],
        once=once,
        each=each,
        start_us=start_us,
        length_us=length_us,
        steps=Steps(time_us=int(length_us) + _MARGIN_US, ids=max(ids, default=0) + 1),
    )


def _pieces(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield start, end and value of each event in the list of events, in any layout."""
    decoder = json.JSONDecoder()
    key = text.find('"traceEvents"')
    position = text.find("[", max(key, 0)) + 1
    while position:
        separator = _SEPARATOR.match(text, position)
        assert separator is not None
        start = separator.end()
        if text[start : start + 1] != "{":
            return
        event, position = decoder.raw_decode(text, start)
        yield start, position, event


def _stretched(marker: str, start_us: float, stretch: float) -> str:
    """Return the text of an event with start and duration scaled by ``stretch``."""

    def scaled(match: re.Match[str]) -> str:
        zero = start_us if '"ts"' in match[1] else 0.0
        time = zero + (float(match[2]) - zero) * stretch
        return match[1] + (f"{time:.3f}" if "." in match[2] else str(int(time)))

    return _TIME.sub(scaled, marker)
