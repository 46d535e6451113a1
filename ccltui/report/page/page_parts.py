"""What a page consists of, independent of its format; every number names where it comes from.

Pictures are SVG elements with a title and a description: distributions of times, lateness by rank
and time, what ranks do around a late arrival, and shares of a step or a rank. Names are escaped
when an element is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from msgspec import Struct

from ccltui.metrics.result import Result
from ccltui.parsers.numbers import binary_size, duration, instant, percent_cell, quantity
from ccltui.parsers.safe_text import safe_text

if TYPE_CHECKING:
    from ccltui.metrics.arrays.intervals import Intervals
    from ccltui.metrics.findings.causes.worst_moments import Lane, Moment
    from ccltui.metrics.findings.waits.rank_lateness import Distribution, LateHeat

Style = Literal["number", "share", "bytes"]
ABSENT: Final = "–"
MOST_LINES: Final = 40
"""Lines of a list of warnings or files; a large job can have thousands."""
LONGEST_TEXT: Final = 1_000
"""Characters of one name or sentence."""


class Number(Struct, frozen=True):
    """A number, or a word, of a metric's details or of a table of `metrics`.

    Attributes:
        value: as computed, None where it is not known.
        source: name of the metric, or of the function in `metrics` that returns the table.
        key: JSON pointer (RFC 6901) to the value in its details.
        style: how it is written: "share" in percent, "bytes" in powers of 1024.
    """

    value: Any
    source: str
    key: str
    style: Style = "number"

    @property
    def text(self) -> str:
        """The number as it is read."""
        return written(self.value, self.style)

    @property
    def exact(self) -> str:
        """The number with all digits."""
        return ABSENT if self.value is None else bounded(str(self.value))


class Mark(Struct, frozen=True):
    """A short word beside a rank, such as "latest"."""

    text: str
    kind: str = "note"


class Swatch(Struct, frozen=True):
    """A label with the colour that a picture uses for it."""

    text: str
    kind: str


class Picture(Struct, frozen=True):
    """A picture: an SVG element with a title and a description, and its caption."""

    svg: Element
    caption: str = ""

    @property
    def name(self) -> str:
        """Its title."""
        return self.svg.findtext("title") or ""


Cell = str | Number | Swatch | Picture | tuple["Cell", ...] | Mark


class Column(Struct, frozen=True):
    """Heading of a column; ``title`` explains it."""

    name: str
    unit: str = ""
    is_numeric: bool = True
    title: str = ""

    @property
    def heading(self) -> str:
        """The name with the unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


class Table(Struct, frozen=True):
    """A table; the first cell of each row names the row."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


class Line(Struct, frozen=True):
    """A sentence, with the value that it states where it is a metric's."""

    text: str
    number: Number | None = None
    is_lead: bool = False


class Lines(Struct, frozen=True):
    """Sentences as a list, under a title of their own where there is one."""

    lines: Sequence[Line]
    title: str = ""


class Legend(Struct, frozen=True):
    """Colours of a picture with what they mean."""

    entries: Sequence[Swatch]


class Subsection(Struct, frozen=True):
    """A part of a section under a heading of its own, kept together on paper."""

    title: str
    blocks: Sequence[Table | Line | Lines | Picture]


Block = Table | Line | Lines | Picture | Legend | Subsection


class Section(Struct, frozen=True):
    """One section; ``absent`` is the reason why it has no content, "" where it has."""

    id: str
    title: str
    purpose: str
    blocks: Sequence[Block] = ()
    absent: str = ""


class Page(Struct, frozen=True):
    """A report: the path as given, facts about the input, and the sections."""

    path: str
    headline: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    version: str


class Source(Struct, frozen=True):
    """The details of one result, from which numbers are taken by their keys."""

    name: str
    details: Mapping[str, Any]

    @classmethod
    def of(cls, results: Mapping[str, Result], name: str) -> Source:
        """Return the details of a result, empty where it is unavailable or not computed."""
        result = results.get(name)
        return cls(name, {} if result is None or result.status == "unavailable" else result.details)

    def number(self, *keys: str | int, style: Style = "number") -> Number:
        """Return the number at a path of keys; its value is None where a key is missing."""
        value: Any = self.details
        for key in keys:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                value = None
                break
        return Number(value, self.name, pointer(*keys), style)

    def get(self, *keys: str | int) -> Any:
        """Return the value at a path of keys, None where there is none."""
        return self.number(*keys).value


def pointer(*keys: str | int) -> str:
    """Return a JSON pointer, in which "/" and "~" of keys are escaped."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def written(value: Any, style: Style) -> str:
    """Return a value as it is read: four digits, percent, or powers of 1024."""
    if value is None:
        return ABSENT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return bounded(str(value))
    if value == 0 and style == "number":
        return "0"
    if style == "share":
        return "<\xa00.1\xa0%" if 0 < value < 0.0005 else f"{100 * value:.1f}\xa0%"
    if style == "bytes":
        return binary_size(int(value))
    return quantity(value)


def bounded(text: str) -> str:
    """Return safe text of bounded length, which names in files have not."""
    return safe_text(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…")


def listed_lines(texts: Sequence[str]) -> list[Line]:
    """Return at most MOST_LINES lines, the last of which counts the others."""
    more = len(texts) - MOST_LINES
    lines = [Line(text) for text in texts[:MOST_LINES]]
    return [*lines, Line(f"and {more} more")] if more > 0 else lines


def why_absent(results: Mapping[str, Result], name: str) -> str:
    """Return why a metric has no value, "" where it has one."""
    result = results.get(name)
    if result is None:
        return "it was not computed"
    if result.status != "unavailable":
        return ""
    return "; ".join(dict.fromkeys(one.message for one in result.reasons)) or "no reason given"


def svg(name: str, width: float, height: float, title: str, description: str) -> Element:
    """Return a picture without content.

    Args:
        name: identifier on the page, from which those of title and description are derived.
        width: width of its coordinates; it is drawn as wide as its place.
        height: height of its coordinates.
        title: what it shows, read aloud in place of the picture.
        description: what is to be seen in it, in words.
    """
    root = Element(
        "svg",
        {
            "viewBox": f"0 0 {width:g} {height:g}",
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-desc",
            "class": "picture",
        },
    )
    SubElement(root, "title", {"id": f"{name}-title"}).text = bounded(title)
    SubElement(root, "desc", {"id": f"{name}-desc"}).text = bounded(description)
    return root


def rect(parent: Element, x: float, y: float, width: float, height: float, *, kind: str) -> Element:
    """Add a filled rectangle of a class."""
    return SubElement(
        parent,
        "rect",
        {
            "x": short(x),
            "y": short(y),
            "width": short(width),
            "height": short(height),
            "class": kind,
        },
    )


def line(parent: Element, x1: float, y1: float, x2: float, y2: float, *, kind: str) -> None:
    """Add a line of a class."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    SubElement(parent, "line", {k: short(v) for k, v in ends.items()} | {"class": kind})


def label(parent: Element, x: float, y: float, text: str, kind: str = "label") -> None:
    """Add text of a class: "label", or "label end", "label middle" by what ``x`` is."""
    SubElement(parent, "text", {"x": short(x), "y": short(y), "class": kind}).text = bounded(text)


def path(parent: Element, pieces: Iterable[str], kind: str, *, width: float = 0) -> None:
    """Add a path of a class, of strokes as wide as ``width``; nothing where it is empty."""
    if data := "".join(pieces):
        found = SubElement(parent, "path", {"d": data, "class": kind})
        if width:
            found.set("stroke-width", short(width))


def box(x: float, y: float, width: float, height: float) -> str:
    """Return the piece of a path that is a rectangle: many cost less than elements."""
    wide = short(max(width, 0.1))
    return f"M{short(x)} {short(y)}h{wide}v{short(height)}h-{wide}z"


def short(value: float) -> str:
    """Return a coordinate with at most two digits after the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def svg_text(element: Element) -> str:
    """Return the text of an element for an HTML page."""
    return tostring(element, encoding="unicode", method="xml")


_WIDTH: Final = 960
_HEIGHT: Final = 300
_LEFT: Final = 76
_RIGHT: Final = 110
_TOP: Final = 14
_BOTTOM: Final = 30
_LEAST_NS: Final = 100
"""Left end of the logarithmic axis: shorter times, zero among them, are drawn there."""


def ecdf_picture(curves: Sequence[Distribution]) -> Element:
    """Return one step curve each: the share of times up to the time below it."""
    words = "; ".join(
        f"{one.name}: median {duration(int(one.times_ns[50]))}, "
        f"95 % up to {duration(int(one.times_ns[95]))}"
        for one in curves
    )
    picture = svg("ecdf", _WIDTH, _HEIGHT, "Cumulative distributions of times", words)
    low = max(min(int(one.times_ns[0]) for one in curves), _LEAST_NS)
    high = max(10 * low, *(int(one.times_ns[-1]) for one in curves))
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def x_of(time_ns: int) -> float:
        place = (math.log10(max(time_ns, 10**first)) - first) / (last - first)
        return _LEFT + place * (_WIDTH - _LEFT - _RIGHT)

    def y_of(percent: float) -> float:
        return _TOP + (100 - percent) / 100 * (_HEIGHT - _TOP - _BOTTOM)

    for power in range(first, last + 1):
        x = x_of(10**power)
        line(picture, x, _TOP, x, _HEIGHT - _BOTTOM, kind="rule")
        label(picture, x, _HEIGHT - 10, duration(10**power), "label quiet middle")
    for percent in (0, 25, 50, 75, 100):
        line(picture, _LEFT, y_of(percent), _WIDTH - _RIGHT, y_of(percent), kind="rule")
        label(picture, _LEFT - 8, y_of(percent) + 4, f"{percent} %", "label quiet end")
    for number, one in enumerate(curves):
        times = one.times_ns.tolist()
        pieces = [f"M{short(x_of(times[0]))} {short(y_of(0))}"]
        for percent, time in enumerate(times):
            pieces.append(f"H{short(x_of(time))}V{short(y_of(percent))}")
        path(picture, pieces, f"curve curve{number}")
        y = _TOP + 20 + 22 * number
        path(picture, [f"M{_WIDTH - _RIGHT + 12} {y - 4}h22"], f"curve curve{number}")
        label(picture, _WIDTH - _RIGHT + 40, y, one.name)
    return picture


_HEAT_RIGHT: Final = 12
_HEAT_TOP: Final = 22
_HEAT_BOTTOM: Final = 26
_TICKS: Final = 6
_STEP_LABEL: Final = 52


def row_label(labels: tuple[str, ...]) -> str:
    """Return the label of a row of one rank or of several neighbours."""
    return labels[0] if len(labels) == 1 else f"{labels[0]}–{labels[-1]}"


def heat_picture(heat: LateHeat) -> Element:
    """Return one row of cells for each rank, darker where it is later."""
    rows, columns = heat.late_ns.shape
    tall = 22 if rows <= 16 else 14 if rows <= 32 else 10
    height = _HEAT_TOP + rows * tall + _HEAT_BOTTOM
    wide = (_WIDTH - _LEFT - _HEAT_RIGHT) / columns
    picture = svg("late-heat", _WIDTH, height, "Lateness by rank and time", _words(heat))
    level = np.searchsorted(heat.levels_ns, heat.late_ns, side="right")
    level = np.minimum(level, max(len(heat.levels_ns) - 1, 0))  # the largest is its own boundary
    level[heat.late_ns < 0] = -1
    for kind in range(-1, int(level.max()) + 1):
        cells = (
            box(_LEFT + column * wide, _HEAT_TOP + row * tall, wide + 0.3, tall - 1)
            for row, column in np.argwhere(level == kind).tolist()
        )
        path(picture, cells, "none" if kind < 0 else f"heat{kind}")
    shown = max(1, -(-12 * rows // (tall * rows)))  # every label where 12 units of height are free
    for row in range(0, rows, shown):
        middle = _HEAT_TOP + row * tall + tall / 2 + 4
        label(picture, _LEFT - 8, middle, row_label(heat.labels[row]), "label end")
    _axis(picture, heat, height)
    return picture


def heat_classes(heat: LateHeat) -> list[tuple[str, str]]:
    """Return name and class of every colour."""
    edges = [duration(one) for one in heat.levels_ns.tolist()]
    found = [(f"up to {duration(heat.floor_ns)}: nobody is late", "heat0")]
    for number, (low, high) in enumerate(pairwise(edges)):
        found.append((f"{low} to {high}", f"heat{number + 1}"))
    return [*found, ("in no collective", "none")]


def _words(heat: LateHeat) -> str:
    row, column = np.unravel_index(int(heat.late_ns.argmax()), heat.late_ns.shape)
    if not len(heat.levels_ns):
        return f"No rank is later than {duration(heat.floor_ns)} at any time."
    when = instant(int(heat.edges_ns[column]), int(heat.edges_ns[1] - heat.edges_ns[0]))
    late = duration(int(heat.late_ns[row, column]))
    return f"The largest lateness is that of rank {row_label(heat.labels[row])}: {late}, at {when}."


def _axis(picture: Element, heat: LateHeat, height: float) -> None:
    begin, end = int(heat.edges_ns[0]), int(heat.edges_ns[-1])
    span = max(end - begin, 1)
    scale = (_WIDTH - _LEFT - _HEAT_RIGHT) / span
    label(picture, _LEFT - 8, 14, "rank", "label end quiet")
    running = [(number, begin) for number, start in heat.steps if start < begin][-1:]
    inside = running + [(number, start) for number, start in heat.steps if begin <= start < end]
    free = 0.0
    for number, start in inside:
        x = _LEFT + (start - begin) * scale
        if x >= free:
            line(picture, x, _HEAT_TOP - 5, x, height - _HEAT_BOTTOM, kind="rule")
            label(picture, x + 3, 14, f"step {number}", "label quiet")
            free = x + _STEP_LABEL
    for tick in range(_TICKS):
        x = _LEFT + (_WIDTH - _LEFT - _HEAT_RIGHT) * tick / (_TICKS - 1)
        text = instant(begin + span * tick // (_TICKS - 1), max(span // 1000, 1))
        side = "middle" if 0 < tick < _TICKS - 1 else ("end" if tick else "")
        label(picture, x, height - 8, text, f"label quiet {side}".rstrip())


_MOMENT_RIGHT: Final = 64
_MOMENT_TOP: Final = 22
_SMALL_ROW: Final = 12
_MOMENT_BOTTOM: Final = 24


def moment_picture(name: str, moment: Moment) -> Element:
    """Return one lane for each rank: computation above, communication below, waiting marked."""
    found = moment.instance
    row = _row_height(len(moment.lanes))
    height = _MOMENT_TOP + len(moment.lanes) * row + _MOMENT_BOTTOM
    words = f"The last to arrive is rank {moment.last}; "
    waits = [lane for lane in moment.lanes if lane.until_ns is not None]
    words += f"{len(waits)} of the {len(moment.lanes)} ranks shown are members."
    title = f"Ranks around {found.kind} {found.row} of {found.group}"
    picture = svg(name, _WIDTH, height, title, words)
    scale = (_WIDTH - _LEFT - _MOMENT_RIGHT) / max(moment.end_ns - moment.start_ns, 1)

    def x_of(time_ns: int) -> float:
        return _LEFT + min(
            max(time_ns - moment.start_ns, 0) * scale, _WIDTH - _LEFT - _MOMENT_RIGHT
        )

    size = "label" if row > _SMALL_ROW else "label tiny"
    for number, lane in enumerate(moment.lanes):
        y = _MOMENT_TOP + number * row
        _lane(picture, lane, x_of, y, row)
        is_last = lane.label == moment.last
        middle = y + row / 2 + 4
        weight = f"{size} strong" if is_last else size
        label(picture, _LEFT - 8, middle, lane.label, f"{weight} end")
        if is_last:
            label(picture, _WIDTH - _MOMENT_RIGHT + 8, middle, "◂ latest", weight)
    _moment_axis(picture, moment, height)
    return picture


def _row_height(lanes: int) -> int:
    """Return the height of a lane; many lanes are lower, so that they fit on a page."""
    return 22 if lanes <= 16 else 16 if lanes <= 32 else _SMALL_ROW


def _lane(picture: Element, lane: Lane, x_of: Callable[[int], float], y: float, row: float) -> None:
    """Draw a lane, the wait of a member below it, and its arrival."""
    upper, lower = (row - 4) * 0.58, (row - 4) * 0.42
    middle = y + 1 + upper + lower / 2
    rect(picture, _LEFT, y + 1, _WIDTH - _LEFT - _MOMENT_RIGHT, row - 4, kind="lane")
    for part, kind in ((lane.compute, "compute"), (lane.copies, "copies")):
        pieces = _strokes(part, x_of, y + 1 + upper / 2)
        path(picture, pieces, f"wide {kind}", width=upper)
    pieces = _strokes(lane.communication, x_of, middle)
    path(picture, pieces, "slim communication", width=lower)
    if lane.arrival_ns is None or lane.until_ns is None:
        return
    begin, end = x_of(lane.arrival_ns), x_of(lane.until_ns)
    if end > begin:
        rect(picture, begin, y + 1 + upper, end - begin, lower, kind="waiting")
    line(picture, begin, y - 0.5, begin, y + row - 2, kind="mark")


def _strokes(part: Intervals, x_of: Callable[[int], float], y: float) -> list[str]:
    """Return intervals as horizontal strokes, which take half of the bytes of boxes."""
    ends = zip(part.start_ns.tolist(), part.end_ns.tolist(), strict=True)
    return [f"M{x_of(a):.1f} {short(y)}h{max(x_of(b) - x_of(a), 0.1):.1f}" for a, b in ends]


def _moment_axis(picture: Element, moment: Moment, height: float) -> None:
    span = moment.end_ns - moment.start_ns
    label(picture, _LEFT - 8, 14, "rank", "label end quiet")
    label(picture, _LEFT, 14, f"{duration(span)} shown", "label quiet")
    for tick in range(_TICKS):
        x = _LEFT + (_WIDTH - _LEFT - _MOMENT_RIGHT) * tick / (_TICKS - 1)
        line(picture, x, _MOMENT_TOP - 3, x, height - _MOMENT_BOTTOM, kind="rule")
        text = instant(moment.start_ns + span * tick // (_TICKS - 1), max(span // 100, 1))
        side = "middle" if tick else ""
        label(picture, x, height - 7, text, f"label quiet {side}".rstrip())


class Share(NamedTuple):
    """One part: its name, the class of its colour, and its share of the whole."""

    name: str
    kind: str
    share: float


_SHARE_WIDTH, _SHARE_HEIGHT = 960, 46
_LEAST_LABEL = 0.06
"""Share below which a part is too narrow for its percentage."""


def step_bar(shares: Sequence[Share], title: str) -> Element:
    """Return one bar over the whole width, with percentages in the wide parts."""
    words = "; ".join(f"{one.name} {percent_cell(one.share)}" for one in shares)
    picture = svg("step-bar", _SHARE_WIDTH, _SHARE_HEIGHT, title, words)
    x = 0.0
    for one in shares:
        width = one.share * _SHARE_WIDTH
        part = rect(picture, x, 0, width, _SHARE_HEIGHT, kind=f"part {one.kind}")
        SubElement(part, "title").text = safe_text(f"{one.name}: {percent_cell(one.share)}")
        if one.share >= _LEAST_LABEL:
            label(
                picture,
                x + width / 2,
                _SHARE_HEIGHT / 2 + 5,
                percent_cell(one.share),
                f"label on {one.kind}",
            )
        x += width
    return picture


def small_bar(name: str, shares: Sequence[Share], title: str) -> Element:
    """Return a bar for a cell of a table, whose row has the numbers."""
    words = ", ".join(f"{one.name} {percent_cell(one.share)}" for one in shares)
    picture = svg(name, 120, 12, title, words)
    picture.set("class", "picture small")
    picture.set("preserveAspectRatio", "none")
    x = 0.0
    for one in shares:
        rect(picture, x, 0, one.share * 120, 12, kind=one.kind)
        x += one.share * 120
    return picture
