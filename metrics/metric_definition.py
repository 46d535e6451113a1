"""The attributes of a metric that its result repeats, for type checks below `metrics.metric`."""

from __future__ import annotations

from typing import Protocol


class MetricDefinition(Protocol):
    """A metric without the function that computes it: functions on views take this type."""

    @property
    def name(self) -> str:
        """The name on the command line and in documents."""

    @property
    def unit(self) -> str:
        """Unit of the value."""

    @property
    def definition(self) -> str:
        """One sentence: the quantity, its unit and its denominator."""

    @property
    def headline(self) -> str:
        """The key of the details whose value is the value of the result."""
