"""Typed access to the part of a view that belongs to one pane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar, cast

S = TypeVar("S")


class HasOwnStates(Protocol):
    """A view that keeps states of single panes by the names of the panes."""

    @property
    def own(self) -> Mapping[str, object]:
        """States that differ from their defaults."""

    def with_own(self, pane: str, state: object) -> Self:
        """The view with another state of a pane."""


V = TypeVar("V", bound=HasOwnStates)


@dataclass(frozen=True, slots=True)
class OwnState(Generic[S]):
    """The state of the pane of a name: a frozen value, ``default`` until something changes it."""

    pane: str
    default: S

    def of(self, view: HasOwnStates) -> S:
        """The pane's state in a view."""
        return cast("S", view.own.get(self.pane, self.default))

    def put(self, view: V, state: S) -> V:
        """The view with another state of the pane."""
        return view.with_own(self.pane, state)


@dataclass(frozen=True, slots=True)
class RowState:
    """State of a pane that is a list: the selected row."""

    row: int = 0
