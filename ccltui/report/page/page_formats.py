"""Write a page as one HTML file without scripts, fonts or links, or as Markdown; its colours.

The class of a part, such as ``compute``, sets ``--own``, its colour, which the rules of `page.css`
use: no colour of a part is stated there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, Final, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from ccltui.draw.palette import HEAT, IDLE_INKS, KIND_INKS, LEVELS, SHADED, Ink, Look, looks, rgb
from ccltui.report.page import page_parts as parts
from ccltui.report.page.pictures import svg_text
from ccltui.report.text_layout import escaped, markdown_table

Theme = Literal["light", "dark"]
Rgb = tuple[int, int, int]

_KINDS: Final = ("compute", "waiting", "bubble", "communication", "copies")
_SHADES: Final = {
    "tp": 0.0,
    "dp": -0.25,
    "pp": 0.25,
    "ep": -0.45,
    "cp": 0.6,
    "world": -0.65,
}
"""Shades of communication by dimension: the share of the page (above 0) or of the strong text
(below 0) that is mixed in. The explorer draws them in one colour, too, with other characters."""
_CURVES: Final = (Ink.TEXT, Ink.WAITING, Ink.TRANSFER)
"""Colours of lag, wait and duration of collectives: the last two are kinds of time."""
_HEAT_LEVELS: Final = (1, 2, 3, 5, 6, 7)
"""Level of the explorer, which has seven, in the middle of each of the six classes of lateness."""
_DOT: Final = 0.2
"""Share of a cell that the dot of idle or punctual time covers. On the dark page the ground alone
has a contrast of 1.1 to the paper, with this share 1.5."""


class Colours(Struct, frozen=True):
    """Colours of one theme.

    Attributes:
        texts: paper, text and rules, by the name of their property.
        parts: what pictures consist of, by the class of the part.
        on: text on the parts of a bar, black or white, whichever has more contrast.
    """

    texts: Mapping[str, Rgb]
    parts: Mapping[str, Rgb]
    on: Mapping[str, Rgb]


def colour_rules(theme: Theme) -> str:
    """Return the rules of a style sheet that state the colours of a theme."""
    found = colours_of(theme)
    texts = " ".join(f"--{name}: {_hex(colour)};" for name, colour in found.texts.items())
    rules = [f":root {{ {texts} }}"]
    rules += [f".{name} {{ --own: {_hex(colour)}; }}" for name, colour in found.parts.items()]
    rules += [f".on.{name} {{ fill: {_hex(colour)}; }}" for name, colour in found.on.items()]
    return "\n".join(rules)


def colours_of(theme: Theme) -> Colours:
    """Return the colours of a theme, all of them made from those of the palette."""
    table = looks("truecolor", theme)
    parts = {kind: _front(table[KIND_INKS[kind]]) for kind in _KINDS}
    paper, strong = _back(table[Ink.TEXT]), _front(table[Ink.STRONG])
    for dim, share in _SHADES.items():
        other = paper if share > 0 else strong
        parts[f"dim-{dim}"] = _mixed(parts["communication"], other, abs(share))
    causes = {f"cause-{cause}": ink for cause, ink in IDLE_INKS.items()}
    for name, ink in ({"idle": Ink.IDLE} | causes).items():
        shaded = table[SHADED + ink]
        parts[name] = _mixed(_back(shaded), _front(shaded), 0.5)  # "▒" in a bar
    on = {name: max(paper, strong, key=partial(contrast, one)) for name, one in parts.items()}
    idle = table[Ink.IDLE]
    parts["lane"] = parts["heat0"] = _mixed(_back(idle), _front(idle), _DOT)
    parts["none"] = paper
    for number, level in enumerate(_HEAT_LEVELS, 1):
        parts[f"heat{number}"] = _back(table[HEAT + level * LEVELS + level])
    parts |= {f"curve{number}": _front(table[ink]) for number, ink in enumerate(_CURVES)}
    texts = {
        "paper": paper,
        "ink": _front(table[Ink.TEXT]),
        "quiet": _front(table[Ink.DIM]),
        "rule": _back(table[Ink.AREA]),
        "warn": _front(table[Ink.WARNING]),
    }
    return Colours(texts, parts, on)


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Rgb) -> float:
    """Return the relative luminance of WCAG 2, 0 to 1."""
    parts = [value / 255 for value in colour]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _front(look: Look) -> Rgb:
    return _known(look.foreground)


def _back(look: Look) -> Rgb:
    return _known(look.background)


def _known(index: int | None) -> Rgb:
    assert index is not None  # only the theme "ansi" leaves colours to the terminal
    return rgb(index)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    """Return one colour with a share, 0 to 1, of another."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _hex(colour: Rgb) -> str:
    return "#" + bytes(colour).hex()


_TEMPLATE: Final = "page.html"
_STYLES: Final = "page.css"


def html_page(page: parts.Page) -> bytes:
    """Return the page as UTF-8. All text is escaped, unsafe characters are made visible."""
    # Markup in names is escaped by the template engine; what could mislead a reader is not markup.
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests.update(
        {
            "table": _is(parts.Table),
            "line": _is(parts.Line),
            "lines": _is(parts.Lines),
            "picture": _is(parts.Picture),
            "legend": _is(parts.Legend),
            "subsection": _is(parts.Subsection),
            "numeral": _is(parts.Number),
            "swatch": _is(parts.Swatch),
            "tag": _is(parts.Mark),
            "several": _is(tuple),
        }
    )
    environment.filters["svg"] = lambda element: Markup(svg_text(element))
    text = environment.get_template(_TEMPLATE).render(
        page=page,
        light=Markup(colour_rules("light")),
        dark=Markup(colour_rules("dark")),
        styles=Markup(_resource(_STYLES)),
    )
    return text.encode()


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _safe(value: Any) -> Any:
    return (
        value if isinstance(value, Markup) or not isinstance(value, str) else parts.bounded(value)
    )


def _is(kind: type) -> Any:
    return lambda value: isinstance(value, kind)


def markdown_page(page: parts.Page) -> bytes:
    """Return the page as UTF-8; names cannot become markup."""
    lines = [f"# {_markdown_safe(page.path)}", ""]
    lines += [f"- {_markdown_safe(name)}: {_markdown_safe(value)}" for name, value in page.facts]
    for section in page.sections:
        lines += ["", f"## {escaped(section.title)}", "", escaped(section.purpose)]
        if section.absent:
            lines += ["", f"Absent: {_markdown_safe(section.absent)}"]
        for block in section.blocks:
            lines += _lines_of(block)
    lines += ["", f"ccltui {page.version}", ""]
    return "\n".join(lines).encode()


def _lines_of(block: parts.Block) -> Iterator[str]:
    if isinstance(block, parts.Table):
        yield from ("", f"**{escaped(block.caption)}**", "")
        shown = [i for i, column in enumerate(block.columns) if not _is_drawn(block, i)]
        rows = [[_text(row[i]) for i in shown] for row in block.rows]
        sides = ["right" if block.columns[i].is_numeric else "left" for i in shown]
        yield from markdown_table([block.columns[i].heading for i in shown], rows, sides)
        if block.note:
            yield from ("", _markdown_safe(block.note))
    elif isinstance(block, parts.Line):
        yield from ("", _sentence(block))
    elif isinstance(block, parts.Lines):
        yield from (("", f"### {block.title}") if block.title else ())
        yield ""
        for line in block.lines:
            yield f"- {_sentence(line)}"
    elif isinstance(block, parts.Subsection):
        yield from ("", f"### {_markdown_safe(block.title)}")
        for part in block.blocks:
            yield from _lines_of(part)


def _is_drawn(table: parts.Table, column: int) -> bool:
    return bool(table.rows) and all(isinstance(row[column], parts.Picture) for row in table.rows)


def _sentence(line: parts.Line) -> str:
    text = _markdown_safe(line.text)
    return text if line.number is None else f"{text} (`{line.number.source}{line.number.key}`)"


def _markdown_safe(text: str) -> str:
    return escaped(parts.bounded(text))


def _text(cell: parts.Cell) -> str:
    if isinstance(cell, tuple):
        return " ".join(map(_text, cell))
    if isinstance(cell, parts.Number | parts.Swatch | parts.Mark):
        return cell.text
    return "" if isinstance(cell, parts.Picture) else parts.bounded(cell)
