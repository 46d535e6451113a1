"""Order of the rows of a list by one of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

Value = str | int | float | None
"""What a row is sorted by: text, a number, or None where it is not known."""


class Sorting(Struct, frozen=True):
    """Title of the column that rows are sorted by, "" for the order in which they are found.

    Numbers are largest first and texts in order of letters, the other way round where ``reverse``.
    """

    column: str = ""
    reverse: bool = False

    def following(self, columns: Sequence[str], step: int) -> Sorting:
        """Return the order by the next column, or the previous for -1; after the last comes none.

        Args:
            columns: titles of the columns; "" is the order in which the rows are found.
            step: 1 or -1.
        """
        at = columns.index(self.column) if self.column in columns else 0
        return Sorting(columns[(at + step) % len(columns)])

    def order(self, values: Sequence[Value]) -> list[int]:
        """Return the places of values in this order; those that are not known are last."""
        known = [place for place, value in enumerate(values) if value is not None]
        texts = [place for place in known if isinstance(values[place], str)]
        texts.sort(key=lambda place: str(values[place]).lower(), reverse=self.reverse)
        numbers = [place for place in known if not isinstance(values[place], str)]
        numbers.sort(key=lambda place: float(values[place] or 0), reverse=not self.reverse)
        unknown = [place for place, value in enumerate(values) if value is None]
        return [*numbers, *texts, *unknown]

    def marked(self, title: str) -> str:
        """Return the heading of a column, with a mark where it is the one of the order."""
        return f"{'▴' if self.reverse else '▼'}{title}" if title and title == self.column else title

    @property
    def text(self) -> str:
        """Return the order for a legend, "" for the order in which rows are found."""
        if not self.column:
            return "reversed" if self.reverse else ""
        return f"by {self.column}{', reversed' if self.reverse else ''}"


AS_FOUND: Final = Sorting()
IN_TIME: Final = Sorting("start")
