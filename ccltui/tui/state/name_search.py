"""A search for names: what it looks through, and for which pattern."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ccltui.tui.state.own.event_listing import Listing


class Among(Enum):
    """What a search looks through, and so what the places of its hits are."""

    TIMES = "device work of a rank: starts in ns since the origin"
    COLLECTIVES = "collectives of a communicator: their numbers"
    ROWS = "rows of a list of events: their places"


@dataclass(frozen=True, slots=True)
class Search:
    """A regular expression, and the names that it is matched with."""

    among: Among
    rank: str
    communicator: int
    listing: Listing
    pattern: str
