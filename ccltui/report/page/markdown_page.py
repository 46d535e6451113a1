"""Write a page as Markdown: the same text and tables, without pictures."""

from __future__ import annotations

from collections.abc import Iterator

from ccltui.report.markdown_text import escaped, markdown_table
from ccltui.report.page import page_parts as parts


def markdown_page(page: parts.Page) -> bytes:
    """Return the page as UTF-8; names cannot become markup."""
    lines = [f"# {_safe(page.path)}", ""]
    lines += [f"- {_safe(name)}: {_safe(value)}" for name, value in page.facts]
    for section in page.sections:
        lines += ["", f"## {escaped(section.title)}", "", escaped(section.purpose)]
        if section.absent:
            lines += ["", f"Absent: {_safe(section.absent)}"]
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
            yield from ("", _safe(block.note))
    elif isinstance(block, parts.Line):
        yield from ("", _sentence(block))
    elif isinstance(block, parts.Lines):
        yield from (("", f"### {block.title}") if block.title else ())
        yield ""
        for line in block.lines:
            yield f"- {_sentence(line)}"
    elif isinstance(block, parts.Subsection):
        yield from ("", f"### {_safe(block.title)}")
        for part in block.blocks:
            yield from _lines_of(part)


def _is_drawn(table: parts.Table, column: int) -> bool:
    return bool(table.rows) and all(isinstance(row[column], parts.Picture) for row in table.rows)


def _sentence(line: parts.Line) -> str:
    text = _safe(line.text)
    return text if line.number is None else f"{text} (`{line.number.source}{line.number.key}`)"


def _safe(text: str) -> str:
    return escaped(parts.bounded(text))


def _text(cell: parts.Cell) -> str:
    if isinstance(cell, tuple):
        return " ".join(map(_text, cell))
    if isinstance(cell, parts.Number | parts.Swatch | parts.Mark):
        return cell.text
    return "" if isinstance(cell, parts.Picture) else parts.bounded(cell)
