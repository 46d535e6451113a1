"""Write a page as one HTML file without scripts, fonts or links, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ccltui.report.page import page_parts as parts
from ccltui.report.page.page_colours import colour_rules
from ccltui.report.page.pictures import svg_text
from ccltui.report.text_layout import escaped, markdown_table

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
