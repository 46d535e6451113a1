"""Flatten results to rows of text: the cells of table and csv.

The key of a row is a path into the result's details (``wait_us.3``), as in a ``--fail-if``
condition. A spreadsheet evaluates no cell of csv as a formula.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from ccltui.metrics.result import Result, unit_of
from ccltui.metrics.unavailable import merged_reasons
from ccltui.parsers.safe_text import safe_text

HEADER: Final = ("metric", "key", "value", "unit", "status", "reason")


class Row(Struct, frozen=True):
    """One line of a report; every field is text without control characters."""

    metric: str
    key: str
    value: str
    unit: str
    status: str
    reason: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The fields in the order of HEADER."""
        return (self.metric, self.key, self.value, self.unit, self.status, self.reason)


def rows_of(result: Result, headline: str, *, detail: bool = False) -> list[Row]:
    """Rows of one result: the headline with the reason, then its other scalars.

    An unavailable result gives one row.

    Args:
        result: Result of a metric.
        headline: Key whose value is ``result.value``.
        detail: Add values per rank, type, group or step: one row per leaf, lists of scalars in
            one cell.
    """
    first = Row(
        safe_text(result.metric),
        safe_text(headline),
        cell_text(result.value),
        result.unit,
        result.status,
        reason_text(result),
    )
    if result.status == "unavailable":
        return [first]
    pairs = [(key, value) for key, value in result.details.items() if key != headline]
    shown = leaves(pairs) if detail else ((k, v) for k, v in pairs if _is_scalar(v))
    return [first] + [
        Row(first.metric, safe_text(key), cell_text(value), unit_of(key), result.status, "")
        for key, value in shown
    ]


def reason_text(result: Result) -> str:
    """``code: message`` of all reasons, one for ranks that share it, in one line."""
    merged = merged_reasons(result.reasons)
    return safe_text("; ".join(f"{code}: {message}" for code, message in merged))


def cell_text(value: object) -> str:
    """One value as text; floats have 15 digits, which are always exact; "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return format(value, ".15g") if isinstance(value, float) else str(value)
    import json  # noqa: PLC0415  (most values are numbers and names)

    return safe_text(json.dumps(value, ensure_ascii=False, default=str))


def leaves(
    pairs: Iterable[tuple[str, Any]], *, longest: int | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of every number and text in details.

    Args:
        pairs: keys with values, which may be mappings and lists of any depth.
        longest: a list of scalars with more elements is yielded by element; None is no limit.
    """
    for key, value in pairs:
        if isinstance(value, Mapping):
            yield from leaves(
                [(f"{key}.{inner}", item) for inner, item in value.items()], longest=longest
            )
        elif isinstance(value, list | tuple) and not _is_one_cell(value, longest):
            yield from leaves(
                [(f"{key}.{index}", item) for index, item in enumerate(value)], longest=longest
            )
        else:
            yield key, value


def _is_one_cell(items: Sequence[Any], longest: int | None) -> bool:
    return (longest is None or len(items) <= longest) and all(map(_is_scalar, items))


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


Cell = str | int | float | None

_CSV_NUMBER: Final = re.compile(
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
    import csv  # noqa: PLC0415  (1 ms, one format of several)

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
    if text.startswith(_FORMULA) and not _CSV_NUMBER.fullmatch(text):
        return f"'{text}"
    return text
