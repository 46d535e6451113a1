"""Board of ranks: how busy each is, how long it makes others wait, and waits itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ccltui.tui.state.finding_rows import details
from ccltui.tui.state.scene import Scene


class BoardRow(Struct, frozen=True):
    """Numbers of one rank; None where the metric has none.

    Attributes:
        label: label of the rank.
        busy: share of the measured time with computation or copies (`gpu_busy`).
        caused_us: wait that others have for it, in us (`straggler_lag`).
        suffered_us: wait that it has for others, in us (`straggler_lag`).
    """

    label: str
    busy: float | None
    caused_us: float | None
    suffered_us: float | None


def board_rows(scene: Scene) -> list[BoardRow]:
    """Return all ranks, those that cause most wait first; none where nothing is known."""
    busy = details(scene, "gpu_busy").get("per_rank") or {}
    lag = details(scene, "straggler_lag")
    blame, waits = lag.get("blame") or {}, lag.get("wait_us") or {}
    if not (busy or blame):
        return []
    rows = [
        BoardRow(
            label,
            _of(busy, label, "useful_busy_ratio"),
            _of(blame, label, "caused_wait_us"),
            waits.get(label),
        )
        for label in scene.findings.lanes
    ]
    return sorted(rows, key=_badness)


def _badness(row: BoardRow) -> tuple[float, float]:
    """Key of the order: most wait caused, then least busy; ties in order of rank."""
    return -(row.caused_us or 0), 2 if row.busy is None else row.busy


def _of(table: Mapping[str, Any], label: str, key: str) -> float | None:
    row = table.get(label)
    value = row.get(key) if isinstance(row, Mapping) else None
    return value if isinstance(value, int | float) else None
