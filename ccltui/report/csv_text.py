"""Write csv whose cells a spreadsheet does not evaluate as formulas."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

from ccltui.parsers.safe_text import safe_text

Cell = str | int | float | None

_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan)", re.ASCII
)
# Source: OWASP, CSV injection; with the full-width forms that some locales treat the same.
# A tab or a line end at the beginning of a cell is escaped earlier.
_FORMULA: Final = tuple("=+-@＝＋－＠")


# A name behind the dashes of its level in nvtx_pushpop_trace: without brackets, operators and
# quotes it is at worst an unknown name to a spreadsheet.
_HARMLESS_BRANCH: Final = re.compile(r"(?:--)+[\w .:,=/\[\]-]*", re.ASCII)


def csv_text(
    rows: Iterable[Sequence[Cell]], *, delimiter: str = ",", trees: Sequence[bool] = ()
) -> str:
    """Write rows of cells as csv text, lines ended by a line feed.

    Texts become safe text. A text that a spreadsheet would evaluate is prefixed with a quote
    (``'``), unless it is a number. ``trees`` marks columns whose names are indented by dashes;
    these get no quote where the name cannot be a formula either.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    marks = tuple(trees)
    writer.writerows(
        [_cell(cell, is_tree=place < len(marks) and marks[place]) for place, cell in enumerate(row)]
        for row in rows
    )
    return text.getvalue()


def _cell(cell: Cell, *, is_tree: bool = False) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = safe_text(cell)
    if is_tree and _HARMLESS_BRANCH.fullmatch(text):
        return text
    if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
