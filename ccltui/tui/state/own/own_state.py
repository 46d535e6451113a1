"""Typed access to the part of a view that belongs to one pane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, Self, TypeVar, cast

from msgspec import Struct

from ccltui.tui.state.own.sorting import AS_FOUND, Sorting

S = TypeVar("S")


class HasOwnStates(Protocol):
    """View that stores states of single panes by pane name."""

    @property
    def own(self) -> Mapping[str, object]:
        """States that differ from their defaults."""

    def with_own(self, pane: str, state: object) -> Self:
        """Return the view with another state of a pane."""


V = TypeVar("V", bound=HasOwnStates)


class OwnState(Struct, Generic[S], frozen=True):
    """Accessor of a pane's state by name: a frozen value, ``default`` until it is changed."""

    pane: str
    default: S

    def of(self, view: HasOwnStates) -> S:
        """Return the pane's state in a view."""
        return cast("S", view.own.get(self.pane, self.default))

    def put(self, view: V, state: S) -> V:
        """Return the view with another state of the pane."""
        return view.with_own(self.pane, state)


class ListState(Struct, frozen=True):
    """State of a pane that is a list.

    Attributes:
        row: place of the cursor.
        chosen: number of the row of the cursor, where the list finds it again in any order.
        pattern: filter of the rows, "" for none.
        sorting: order of the rows.
        kind: what rows are, where a list has several kinds; "" for the first.
        toggled: names of the rows that are folded or unfolded other than at first.
    """

    row: int = 0
    pattern: str = ""
    sorting: Sorting = AS_FOUND
    kind: str = ""
    toggled: frozenset[str] = frozenset()
    chosen: int | None = None
