"""Listing of the events of a rank: kind of rows, order, and filter by name."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.state.own.own_state import HasOwnStates, OwnState, V
from ccltui.tui.state.own.pane_names import EVENTS


class Listed(Enum):
    """Kind of rows of Events."""

    COLLECTIVES = "collectives"
    DEVICE = "device work"


class Sort(Enum):
    """Order of the rows of Events: places, times and names ascending, sizes descending."""

    TIME = "time"
    DURATION = "duration"
    NAME = "name"
    LAG = "lag"
    BYTES = "bytes"
    PLACE = "k"
    STEP = "it"
    LATE = "this rank late"


class Listing(Struct, frozen=True):
    """Choice of the events of the selected rank and their order; ``pattern`` filters by name."""

    listed: Listed = Listed.COLLECTIVES
    sort: Sort = Sort.TIME
    pattern: str = ""
    reverse: bool = False

    @property
    def sorts(self) -> tuple[Sort, ...]:
        """Orders that these rows can have."""
        everything = tuple(Sort)
        return everything if self.listed is Listed.COLLECTIVES else everything[:3]

    def sorted_next(self) -> Listing:
        """Return the listing with the next order in turn."""
        at = self.sorts.index(self.sort) + 1
        return replace(self, sort=self.sorts[at % len(self.sorts)], reverse=False)

    def switched(self) -> Listing:
        """Return the other kind of rows, in order of time."""
        other = Listed.DEVICE if self.listed is Listed.COLLECTIVES else Listed.COLLECTIVES
        return Listing(other, Sort.TIME, self.pattern)


class EventsState(Struct, frozen=True):
    """State of Events: the listing, and the row of the table that was chosen there."""

    listing: Listing = field(default_factory=Listing)
    event: int | None = None


EVENTS_STATE: Final = OwnState(EVENTS, EventsState())


def listing_of(view: HasOwnStates) -> Listing:
    """Return the listing of Events in a view."""
    return EVENTS_STATE.of(view).listing


def with_event(view: V, event: int | None) -> V:
    """Return the view with another chosen row of Events, None for none."""
    return EVENTS_STATE.put(view, replace(EVENTS_STATE.of(view), event=event))
