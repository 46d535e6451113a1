"""Tables of metric results: values of the headline and by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccltui.metrics.result import Result

_PER_STEP = "per_step"
_BESIDE = frozenset({"n", "std", "component", "min", "max"})

Number = float | int | None
RankColumns = dict[str, dict[str, Number]]
"""Column name -> rank label -> value."""


def rank_columns(result: Result, labels: Sequence[str]) -> RankColumns:
    """Return all parts of the details with a value for each rank, the headline's own first."""
    columns: RankColumns = {}
    for key, part in result.details.items():
        by_rank = isinstance(part, Mapping) and part and set(part) <= set(labels)
        if by_rank and _PER_STEP not in key:  # steps may be numbered like ranks
            _add(columns, key, part)
    return columns


def _add(columns: RankColumns, key: str, by_rank: Mapping[str, Any]) -> None:
    for label, value in by_rank.items():
        if isinstance(value, Mapping):
            for inner, number in value.items():
                if _is_number(number) and not inner.isdigit():  # skip values step by step
                    name = inner if key == "per_rank" else f"{key} {inner}"
                    columns.setdefault(name, {})[label] = number
        elif _is_number(value):
            columns.setdefault(key, {})[label] = value


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def leading(columns: RankColumns, headline: str) -> str | None:
    """Return the column with the headline by rank, None when there is none."""
    if headline in columns:
        return headline
    words = headline.split("_")
    return next((name for name in columns if name in words), None)


def fallback(columns: RankColumns) -> str | None:
    """Return the first column by rank of something other than the headline."""
    return next((name for name in columns if name.split()[-1] not in _BESIDE), None)


def spread(column: Mapping[str, Number]) -> float | None:
    """Return largest minus smallest value over the absolute mean, None where that is zero."""
    known = [value for value in column.values() if value is not None]
    mean = abs(sum(known) / len(known)) if known else 0
    return (max(known) - min(known)) / mean if mean else None


def extremes(column: Mapping[str, Number]) -> tuple[tuple[str, float], tuple[str, float]] | None:
    """Return rank and value of the smallest and of the largest, None without values."""
    known = [(label, value) for label, value in column.items() if value is not None]
    if not known:
        return None
    return min(known, key=lambda pair: pair[1]), max(known, key=lambda pair: pair[1])
