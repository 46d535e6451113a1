"""Read how many tokens each expert of a mixture got, from files of three known shapes.

- gate logs: ``{"expert_loads": [[load of each expert], …]}``, one list a step;
- statistics: ``{"model.layers.3.mlp": {"expert_counts": […], "expert_active_calls": […]}}``,
  one file a rank, one entry a layer;
- assignments: ``{"rank": 0, "token_counts": […]}``, one a rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from ccltui.parsers.array_types import F64
from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.json_fields import LARGEST_NUMBER
from ccltui.parsers.text.side_json import read_documents

Shape = Literal["gate_log", "statistics", "assignments"]

SHAPES: Final[tuple[Shape, ...]] = ("statistics", "gate_log", "assignments")
"""In order of detail, the most detailed first."""


@dataclass(frozen=True)
class ExpertLoad:
    """Loads of one file. They are float64 by expert; whole numbers are tokens.

    ``steps`` is [steps, experts] of a gate log, ``layers`` the loads by layer name of
    statistics; ``total`` is their sum, or the counts of assignments. ``active_calls`` is in how
    many calls each expert got any token, by layer.
    """

    shape: Shape
    total: F64
    rank: int | None = None
    steps: F64 | None = None
    layers: Mapping[str, F64] = field(default_factory=dict)
    active_calls: Mapping[str, F64] = field(default_factory=dict)


def read_expert_load(path: Path, *, shown: str, rank: int | None = None) -> tuple[ExpertLoad, ...]:
    """Loads of a file; ``rank`` is that of its name, for shapes that do not state one.

    Raises TraceError for a file that is no JSON, of none of the shapes, or whose lists differ.
    """
    found: list[ExpertLoad] = []
    for document in read_documents(path, shown=shown):
        parts = document if isinstance(document, list) else [document]
        found += [_load(part, rank, shown) for part in parts]
    return tuple(found)


def _load(document: Any, rank: int | None, shown: str) -> ExpertLoad:
    if isinstance(document, dict) and "expert_loads" in document:
        return _gate_log(document["expert_loads"], rank, shown)
    if isinstance(document, dict) and "token_counts" in document:
        stated = document.get("rank")
        own = stated if isinstance(stated, int) and not isinstance(stated, bool) else rank
        return ExpertLoad("assignments", _loads(document["token_counts"], shown), own)
    layers = _layers(document, shown) if isinstance(document, dict) else {}
    if not layers:
        raise TraceError("no loads of experts in any known shape", path=shown)
    counts = {name: loads for name, (loads, _) in layers.items()}
    active = {name: calls for name, (_, calls) in layers.items() if calls is not None}
    if len({len(loads) for loads in counts.values()}) > 1:
        raise TraceError("layers have different numbers of experts", path=shown)
    total = np.sum(list(counts.values()), axis=0)
    return ExpertLoad("statistics", total, rank, layers=counts, active_calls=active)


def _gate_log(steps: Any, rank: int | None, shown: str) -> ExpertLoad:
    if not isinstance(steps, list) or not steps:
        raise TraceError("expert_loads is no list of steps", path=shown)
    rows = [_loads(step, shown) for step in steps]
    if len({len(row) for row in rows}) > 1:
        raise TraceError("steps have different numbers of experts", path=shown)
    table = np.stack(rows)
    return ExpertLoad("gate_log", table.sum(axis=0), rank, steps=table)


def _layers(document: Mapping[str, Any], shown: str) -> dict[str, tuple[F64, F64 | None]]:
    found: dict[str, tuple[F64, F64 | None]] = {}
    for name, part in document.items():
        if isinstance(part, dict) and "expert_counts" in part:
            calls = part.get("expert_active_calls")
            active = _loads(calls, shown) if isinstance(calls, list) and calls else None
            found[name] = (_loads(part["expert_counts"], shown), active)
    return found


def _loads(values: Any, shown: str) -> F64:
    """Loads of all experts. Raises TraceError for what is no list of numbers from 0 up."""
    if not isinstance(values, list) or not values:
        raise TraceError("loads of experts are no list of numbers", path=shown)
    numbers = [_number(value) for value in values]
    if any(number is None or number < 0 for number in numbers):
        raise TraceError("a load of an expert is no number from 0 up", path=shown)
    return np.array(numbers, np.float64)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= LARGEST_NUMBER else None
