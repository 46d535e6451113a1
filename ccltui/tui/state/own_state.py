"""Typed access to the part of a view that belongs to one pane."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

from ccltui.tui.state.view_state import ViewState

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class OwnState(Generic[S]):
    """The state of the pane of a name: a frozen value, ``default`` until something changes it."""

    pane: str
    default: S

    def of(self, view: ViewState) -> S:
        """The pane's state in a view."""
        return cast("S", view.own.get(self.pane, self.default))

    def put(self, view: ViewState, state: S) -> ViewState:
        """The view with another state of the pane."""
        return replace(view, own={**view.own, self.pane: state})


@dataclass(frozen=True, slots=True)
class RowState:
    """State of a pane that is a list: the selected row."""

    row: int = 0
