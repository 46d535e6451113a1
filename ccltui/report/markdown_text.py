"""Escape names for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ccltui.parsers.safe_text import safe_text

_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# A backslash is literal before a letter, and an escape before punctuation.
_MARKUP: Final = re.compile(r"\\(?=[!-/:-@\[-`{-~])|[`|\[\]]")


def table_row(cells: Sequence[str]) -> str:
    """Line of a table with escaped cells."""
    return "| " + " | ".join(map(escaped, cells)) + " |"


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str] = ()
) -> list[str]:
    """Lines of a table; ``align`` is "left" or "right" for the first columns, left for others."""
    rule = ["---:" if side == "right" else "---" for side in align]
    rule += ["---"] * (len(header) - len(rule))
    return [table_row(header), f"| {' | '.join(rule)} |", *map(table_row, rows)]


def escaped(text: str) -> str:
    """Return ``text`` as safe text without tags, links, images, code spans or cell borders."""
    entities = _MARKUP.sub(r"\\\g<0>", safe_text(text)).translate(_ENTITIES)
    # An arrow, as in names of copies, ends no tag: every "<" before it is an entity.
    return entities.replace("-&gt;", "->")


def code(text: str) -> str:
    """Return ``text`` as a code span, or escaped where a span cannot contain it."""
    plain = escaped(text).replace("\\|", "|")
    return f"`{text}`" if plain == text else escaped(text)
