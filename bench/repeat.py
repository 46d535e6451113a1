"""A small trace file as a pattern: its events again and again, later and under new ids.

The text of every event stays as it was written, so a repeated file has the layout, the mix of
events and the arguments of its source. What must differ from one repetition to the next is
moved by a constant: times, correlations, flow ids, External ids, sequence numbers, the number
of a step marker. What names rows or spans the whole file is written once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ID_KEYS = ("correlation", "id", "External id", "external id", "Ev Idx", "Seq")
_MOVED = re.compile(
    r'"(?P<key>ts|' + "|".join(_ID_KEYS) + r')": (?P<number>[0-9]+)|ProfilerStep#(?P<step>[0-9]+)'
)
_SEPARATOR = re.compile(r"[\s,]*")
_MARGIN_US = 100


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of events: all of them, and the complete ones but for the profiler's own span."""

    events: int
    timed: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.events + other.events, self.timed + other.timed)

    def __mul__(self, times: int) -> Counts:
        return Counts(self.events * times, self.timed * times)


@dataclass(frozen=True, slots=True)
class Steps:
    """By how much one repetition differs from the one before."""

    time_us: int
    ids: int
    markers: int

    def covering(self, other: Steps) -> Steps:
        """Steps that are wide enough for both: files of one job must move alike."""
        return Steps(
            max(self.time_us, other.time_us),
            max(self.ids, other.ids),
            max(self.markers, other.markers),
        )


@dataclass(frozen=True, slots=True)
class Pattern:
    """A trace file taken apart: what comes once, and a text to format once a repetition."""

    before: str  # up to the first event, and the events that name rows
    form: str  # the repeated events, "%d" in place of every number that moves
    numbers: tuple[tuple[str, int], ...]  # key and first value of each of them
    between: str  # what stands between two events
    after: str
    once: Counts
    each: Counts
    steps: Steps

    def texts(self, repetitions: int, steps: Steps | None = None) -> Iterator[str]:
        """The file in pieces, the events ``repetitions`` times."""
        wide = steps or self.steps
        moves = [_move(key, wide) for key, _ in self.numbers]
        yield self.before
        for index in range(repetitions):
            values = tuple(
                value + index * move for (_, value), move in zip(self.numbers, moves, strict=True)
            )
            yield (self.between if index else "") + self.form % values
        yield self.after

    def counts(self, repetitions: int) -> Counts:
        """Events of a file of that many repetitions."""
        return self.once + self.each * repetitions

    @property
    def block_bytes(self) -> int:
        """Bytes of one repetition, about: the numbers grow."""
        return len((self.form % tuple(value for _, value in self.numbers)).encode())


def pattern_of(text: str) -> Pattern:
    """Take a trace apart; raises ValueError where it holds no list of events."""
    pieces = list(_pieces(text))
    if not pieces:
        raise ValueError("no list of trace events")
    first, last = pieces[0][0], pieces[-1][1]
    between = text[pieces[0][1] : pieces[1][0]] if len(pieces) > 1 else ", "
    fixed, repeated, spans = [], [], []
    once = each = Counts(0, 0)
    for start, end, event in pieces:
        is_complete = event.get("ph") == "X"
        spans_file = event.get("cat") == "Trace"
        counted = Counts(1, int(is_complete and not spans_file))
        if event.get("ph") in ("M", "i") or spans_file:
            fixed.append(text[start:end])
            once += counted
        else:
            repeated.append(text[start:end])
            each += counted
            spans.append((float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0))))
    body = between.join(repeated)
    numbers = tuple(_number(match) for match in _MOVED.finditer(body))
    return Pattern(
        before=text[:first] + "".join(piece + between for piece in fixed),
        form=_MOVED.sub(_placeholder, body.replace("%", "%%")),
        numbers=numbers,
        between=between,
        after=text[last:],
        once=once,
        each=each,
        steps=_steps(numbers, spans),
    )


def _pieces(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Start, end and value of each event of the list of events, in any layout."""
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


def _number(match: re.Match[str]) -> tuple[str, int]:
    if match["step"] is not None:
        return "step", int(match["step"])
    return match["key"], int(match["number"])


def _placeholder(match: re.Match[str]) -> str:
    if match["step"] is not None:
        return "ProfilerStep#%d"
    return f'"{match["key"]}": %d'


def _steps(numbers: tuple[tuple[str, int], ...], spans: list[tuple[float, float]]) -> Steps:
    length = max(end for _, end in spans) - min(start for start, _ in spans)
    ids = [value for key, value in numbers if key in _ID_KEYS]
    markers = [value for key, value in numbers if key == "step"]
    return Steps(
        time_us=int(length) + _MARGIN_US,
        ids=max(ids, default=0) + 1,
        markers=max(markers) - min(markers) + 1 if markers else 0,
    )


def _move(key: str, steps: Steps) -> int:
    if key == "ts":
        return steps.time_us
    return steps.markers if key == "step" else steps.ids
