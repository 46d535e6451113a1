"""Flatten results to rows of text: the cells of table and csv.

The key of a row is a path into the result's details (``wait_us.3``), as in a ``--fail-if``
condition.
"""

from __future__ import annotations

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
