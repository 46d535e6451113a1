"""What the user looks at: panes, viewports and the one cursor they share. No terminal here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ccltui.tui.viewport import ColumnView, TimeView


class Pane(Enum):
    """The panes, by the digit that opens them."""

    SUMMARY = "1"
    ALIGNMENT = "2"
    TIMELINE = "3"

    @property
    def title(self) -> str:
        """Full name."""
        return self.name.capitalize()

    @property
    def short_title(self) -> str:
        """Name where there is little room."""
        return {"1": "Sum", "2": "Align", "3": "Time"}[self.value]


class Order(Enum):
    """Order of the ranks."""

    RANK = "rank"
    HARM = "harm"

    def following(self) -> Order:
        """The next order in turn."""
        return Order.HARM if self is Order.RANK else Order.RANK


DEFAULT_FLOOR_NS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Selection:
    """The shared cursor: a rank by label, a collective of a communicator, a time."""

    rank: str | None = None
    communicator: int = 0
    k: int | None = None
    time_ns: int | None = None  # since the job's origin, on its clock


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything that keys change. A new state is a new object; nothing else is mutable."""

    pane: Pane = Pane.SUMMARY
    selection: Selection = field(default_factory=Selection)
    time: TimeView = field(default_factory=TimeView)
    columns: ColumnView = field(default_factory=ColumnView)
    rows: int = 1  # screen rows of the selected pane below its heading
    metric: int = 0
    first_rank: int = 0  # of the per-rank table, when it is opened
    table_open: bool = False
    floor_ns: int = DEFAULT_FLOOR_NS
    order: Order = Order.RANK
    merged: bool = False
    worst: int | None = None  # place of the selected collective by harm

    def select(
        self,
        *,
        rank: str | None = None,
        communicator: int | None = None,
        k: int | None = None,
        time_ns: int | None = None,
    ) -> ViewState:
        """Move the shared cursor; what is not given stays."""
        old = self.selection
        return replace(
            self,
            selection=Selection(
                rank=old.rank if rank is None else rank,
                communicator=old.communicator if communicator is None else communicator,
                k=old.k if k is None else k,
                time_ns=old.time_ns if time_ns is None else time_ns,
            ),
        )
