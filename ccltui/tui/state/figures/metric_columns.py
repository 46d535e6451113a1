"""Columns of the list of metrics: which there are, which are hidden, and orders by them."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ccltui.parsers.errors import GrammarError
from ccltui.tui.state.own.overview_state import OVERVIEW_STATE, MetricOrder
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

BY_RANK: Final = "by rank"
BY_STEP: Final = "by step"
OF_B: Final = ("B", "B - A", "change")
"""Columns that only a comparison has; their values are those of ``ccltui diff --metrics``."""
_COLUMNS: Final = ("value", "unit", *OF_B, BY_RANK, "min", "max", "spread", BY_STEP)


def columns(scene: Scene) -> tuple[str, ...]:
    """Return all columns after the names, in order."""
    return tuple(name for name in _COLUMNS if scene.other is not None or name not in OF_B)


def listed_columns(scene: Scene) -> tuple[str, ...]:
    """Return the columns that are not hidden."""
    hidden = OVERVIEW_STATE.of(scene.state).hidden_columns
    return tuple(name for name in columns(scene) if name not in hidden)


def orders(scene: Scene) -> list[MetricOrder]:
    """Return the orders that the metrics can have; by the difference only in a comparison."""
    return [one for one in MetricOrder if one is not MetricOrder.DELTA or scene.other is not None]


def matching(text: str, scene: Scene) -> list[str]:
    """Return the columns whose names begin with a text, each with a sign of what choosing does."""
    hidden = OVERVIEW_STATE.of(scene.state).hidden_columns
    fitting = [name for name in columns(scene) if name.lower().startswith(text.strip().lower())]
    return [f"+{name}" if name in hidden else f"-{name}" for name in fitting]


def toggled(text: str, scene: Scene) -> ViewState:
    """Hide a column, or list it again; without a name list all.

    Raises:
        GrammarError: There is no such column, or no other is left.
    """
    own = OVERVIEW_STATE.of(scene.state)
    text = text.strip().lstrip("+-").lower()
    if not text:
        return OVERVIEW_STATE.put(scene.state, replace(own, hidden_columns=frozenset()))
    names = columns(scene)
    exact = [name for name in names if name.lower() == text]
    found = exact or [name for name in names if name.lower().startswith(text)]
    if not found:
        raise GrammarError(f"no column {text!r}; there are {', '.join(names)}")
    own = replace(own, hidden_columns=own.hidden_columns ^ {found[0]})
    return OVERVIEW_STATE.put(scene.state, own)
