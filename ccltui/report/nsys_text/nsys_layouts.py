"""Parse formats of ``nsys stats`` with their arguments: ``csv:time=us:nohdr``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.errors import GrammarError
from ccltui.report.nsys_text.nsys_cells import SIZE_UNITS, TIME_UNITS, Units

EXTENSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "column": "txt",
        "table": "txt",
        "csv": "csv",
        "tsv": "tsv",
        "json": "json",
        "hdoc": "html",
        "htable": "html",
    }
)
"""The formats, and the extension of a file in each."""

_CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "time": ("point", "duration"),
    "ts": ("point",),
    "dur": ("duration",),
    "bytes": ("size", "rate"),
    "mem": ("size",),
    "thru": ("rate",),
}
_IGNORED: Final = ("nofmt", "gid", "addr", "ratio")
"""Arguments without effect here: numbers are not grouped, and no column is of these categories."""


class Layout(Struct, frozen=True):
    """A format and its arguments.

    Attributes:
        name: One of EXTENSIONS.
        units: Units of the cells.
        has_header: Whether the header is written.
        lines_measured: Rows that determine the width of columns, 0 for all.
        widest: Widest column in characters, 0 for any width.
        widths: Widths of the first columns; None fits the content, 0 hides a column.
        escapes_tabs: Whether tabs in tsv are written as a backslash and a t.
        title: Title of an HTML document.
        css: Address of the style sheet of an HTML document.
    """

    name: str = "column"
    units: Units = field(default_factory=Units)
    has_header: bool = True
    lines_measured: int = 100
    widest: int = 100
    widths: tuple[int | None, ...] = ()
    escapes_tabs: bool = False
    title: str = "Nsight Systems Stats Output"
    css: str = ""


def parse_layout(text: str, time_unit: str = "ns") -> Layout:
    """Parse a format with its arguments, separated by colons.

    Args:
        text: The format.
        time_unit: Unit of times where no argument gives one.

    Raises:
        GrammarError: There is no such format or argument.
    """
    name, *arguments = text.strip().split(":")
    if name not in EXTENSIONS:
        raise GrammarError(f"unknown format {name[:40]!r}; formats: {', '.join(EXTENSIONS)}")
    layout = Layout(name, Units(time_unit, time_unit))
    for argument in arguments:
        layout = _with(layout, argument)
    return layout


def _with(layout: Layout, argument: str) -> Layout:
    name, equals, value = argument.partition("=")
    if equals and name in _CATEGORIES:
        return replace(layout, units=_with_unit(layout.units, name, value))
    simple: dict[str, Layout] = {
        "nohdr": replace(layout, has_header=False),
        "nohdrunit": replace(layout, units=replace(layout.units, in_header=False)),
        "noconv": replace(layout, units=replace(layout.units, size="B", rate="B")),
        "esc": replace(layout, escapes_tabs=True),
        ".": replace(layout, widths=(*layout.widths, None)),
    }
    if argument in simple:
        return simple[argument]
    if name in _IGNORED:
        return layout
    if argument.isascii() and argument.isdigit():
        return replace(layout, widths=(*layout.widths, _whole(argument)))
    if equals and name == "autolines":
        return replace(layout, lines_measured=_whole(value))
    if equals and name == "colmax":
        return replace(layout, widest=_whole(value))
    if equals and name == "title":
        return replace(layout, title=value)
    if equals and name == "css":
        return replace(layout, css=value)
    raise GrammarError(f"{layout.name} has no argument {argument[:40]!r}")


def _with_unit(units: Units, category: str, unit: str) -> Units:
    fields = _CATEGORIES[category]
    known = SIZE_UNITS if "size" in fields or "rate" in fields else TIME_UNITS
    if unit not in known:
        raise GrammarError(f"{category}={unit[:20]}: units are {', '.join(known)}")
    shown = unit if known is SIZE_UNITS else TIME_UNITS[unit]
    named = {name: getattr(units, name) for name in ("point", "duration", "size", "rate")}
    named.update(dict.fromkeys(fields, shown))
    point, duration, size, rate = named.values()
    return Units(point, duration, size, rate, units.in_header)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise GrammarError(f"{text[:20]!r} is not a number of lines or characters")
    return int(text)
