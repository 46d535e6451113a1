"""One measured number with its samples and limitations."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

GB: Final = 10**9
MB: Final = 10**6


@dataclass(frozen=True, slots=True)
class Row:
    """A value and its unit; None with a ``reason`` where it could not be measured.

    ``samples`` are single measurements in the same unit, of which ``value`` is the median.
    ``marks`` are limitations of a value: ``cpu`` (no accelerator), ``same_node`` (no network
    between the ranks), ``cached`` (reads may come from the page cache).
    """

    id: str
    category: str
    test: str
    value: float | None
    unit: str
    unit_bytes: int | None = None
    host: str | None = None
    device: int | None = None
    ranks: int | None = None
    method: str = ""
    samples: tuple[float, ...] = ()
    marks: tuple[str, ...] = ()
    reason: str | None = None

    def measured(self, samples: Sequence[float]) -> Row:
        """Return the row with the median of ``samples``."""
        return replace(self, value=statistics.median(samples), samples=tuple(samples))

    def refused(self, reason: str) -> Row:
        """Return a row without a value, with the reason."""
        return replace(self, value=None, reason=reason)

    def on(self, host: str) -> Row:
        """Return the row as one of a host."""
        return replace(self, host=host)

    def marked(self, *marks: str) -> Row:
        """Return the row with further marks."""
        return replace(self, marks=(*self.marks, *marks))
