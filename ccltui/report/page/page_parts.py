"""What a page consists of, independent of its format; every number names where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from xml.etree.ElementTree import Element

from msgspec import Struct

from ccltui.metrics.result import Result
from ccltui.parsers.numbers import binary_size, quantity
from ccltui.parsers.safe_text import safe_text

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
