"""A computed report: typed columns under the names that nsys gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["text", "count", "percent", "time", "mean_time", "size", "rate", "mean"]
"""What a column holds, which settles how it is printed.

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
    """One report, or why there is none (``absent``, in the words nsys would use)."""

    name: str
    title: str
    columns: tuple[ReportColumn, ...] = ()
    absent: str | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> ReportColumn:
        """The column of that name. Raises KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
