"""Data model of a report: typed columns with the names of nsys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["text", "count", "percent", "time", "mean_time", "size", "rate", "mean"]
"""Kind of the values of a column, which determines how it is printed.

text: str. count: int64, masked by ``known``. percent: float64. time: int64 ns. mean_time:
float64 ns. size: float64 bytes. rate: float64 bytes/s. mean: float64, one decimal.
"""


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column; ``known`` (bool) is None where every cell has a value."""

    name: str
    kind: Kind
    values: Sequence[str] | npt.NDArray[Any]
    known: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Report:
    """One report, or the reason why there is none (``absent``, in the wording of nsys)."""

    name: str
    title: str
    columns: tuple[ReportColumn, ...] = ()
    absent: str | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> ReportColumn:
        """Return a column by name.

        Raises:
            KeyError: There is no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
