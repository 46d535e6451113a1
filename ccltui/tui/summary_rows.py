"""A metric's result as rows and columns: what it says in all, and rank by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metrics.result import Result

from ccltui.tui.scene import rank_name

Number = float | int | None
RankColumns = dict[str, dict[str, Number]]
"""Column name -> rank label -> value."""


def rank_columns(result: Result, labels: Sequence[str]) -> RankColumns:
    """Every part of the details that has a value for each rank, the headline's own first."""
    columns: RankColumns = {}
    for key, part in result.details.items():
        if isinstance(part, Mapping) and part and set(part) <= set(labels):
            _add(columns, key, part)
    return columns


def _add(columns: RankColumns, key: str, by_rank: Mapping[str, Any]) -> None:
    for label, value in by_rank.items():
        if isinstance(value, Mapping):
            for inner, number in value.items():
                if _is_number(number) and not inner.isdigit():  # not: step by step
                    name = inner if key == "per_rank" else f"{key} {inner}"
                    columns.setdefault(name, {})[label] = number
        elif _is_number(value):
            columns.setdefault(key, {})[label] = value


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def leading(columns: RankColumns, headline: str) -> str | None:
    """The column that tells the headline rank by rank, None when there is none."""
    if headline in columns:
        return headline
    words = headline.split("_")
    return next((name for name in columns if name in words), None)


def late_ranks(result: Result) -> str:
    """Who arrived last and how often, those who cost most first; "" where nobody is blamed."""
    blame = result.details.get("blame")
    total = result.details.get("num_collectives")
    if not isinstance(blame, Mapping) or not total:
        return ""
    ranks = [(label, part["last_count"], part["caused_wait_us"]) for label, part in blame.items()]
    guilty = sorted((rank for rank in ranks if rank[1]), key=lambda rank: -rank[2])
    return "   ".join(f"{rank_name(label)} {times}" for label, times, _ in guilty[:6]) + (
        f"   of {total}" if guilty else ""
    )


def extremes(column: Mapping[str, Number]) -> tuple[tuple[str, float], tuple[str, float]] | None:
    """Rank and value of the smallest and of the largest, None without values."""
    known = [(label, value) for label, value in column.items() if value is not None]
    if not known:
        return None
    return min(known, key=lambda pair: pair[1]), max(known, key=lambda pair: pair[1])
