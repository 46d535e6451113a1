"""Search for names: the kind of names and the pattern."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from ccltui.tui.state.pane_states import Listing


class Among(Enum):
    """Kind of names that a search covers, which also defines the unit of the places of its hits."""

    TIMES = "device work of a rank: starts in ns since the origin"
    COLLECTIVES = "collectives of a communicator: their numbers"
    ROWS = "rows of a list of events: their places"


class Search(Struct, frozen=True):
    """Regular expression, and the names that it is matched with."""

    among: Among
    rank: str
    communicator: int
    listing: Listing
    pattern: str
