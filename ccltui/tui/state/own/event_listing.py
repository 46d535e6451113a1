"""How the events of a rank are listed: which of them, in which order, filtered by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ccltui.tui.state.own.own_state import HasOwnStates, OwnState, V
from ccltui.tui.state.own.pane_names import EVENTS


class Listed(Enum):
    """What the rows of Events are."""

    COLLECTIVES = "collectives"
    DEVICE = "device work"


class Sort(Enum):
    """Order of the rows of Events: by time ascending, by sizes the largest first."""

    TIME = "time"
    DURATION = "duration"
    NAME = "name"
    LAG = "lag"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Listing:
    """Which events of the selected rank are listed, and how; ``pattern`` filters by name."""

    listed: Listed = Listed.COLLECTIVES
    sort: Sort = Sort.TIME
    pattern: str = ""

    @property
    def sorts(self) -> tuple[Sort, ...]:
        """Orders that these rows can have."""
        everything = tuple(Sort)
        return everything if self.listed is Listed.COLLECTIVES else everything[:3]

    def sorted_next(self) -> Listing:
        """The next order in turn."""
        at = self.sorts.index(self.sort) + 1
        return replace(self, sort=self.sorts[at % len(self.sorts)])

    def switched(self) -> Listing:
        """The other kind of rows, in order of time."""
        other = Listed.DEVICE if self.listed is Listed.COLLECTIVES else Listed.COLLECTIVES
        return Listing(other, Sort.TIME, self.pattern)


@dataclass(frozen=True, slots=True)
class EventsState:
    """State of Events: the listing, and the row of the table that was chosen there."""

    listing: Listing = field(default_factory=Listing)
    event: int | None = None


EVENTS_STATE: Final = OwnState(EVENTS, EventsState())


def listing_of(view: HasOwnStates) -> Listing:
    """The listing of Events in a view."""
    return EVENTS_STATE.of(view).listing


def with_event(view: V, event: int | None) -> V:
    """The view with another chosen row of Events, None for none."""
    return EVENTS_STATE.put(view, replace(EVENTS_STATE.of(view), event=event))
