"""Format cells of a report as nsys does: units in the header, digits by unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.nsys_reports import Report, ReportColumn

TIME_UNITS: Final[Mapping[str, str]] = {
    "ns": "ns",
    "nsec": "ns",
    "nanoseconds": "ns",
    "us": "us",
    "usec": "us",
    "microseconds": "us",
    "ms": "ms",
    "msec": "ms",
    "milliseconds": "ms",
    "s": "sec",
    "sec": "sec",
    "seconds": "sec",
}
"""Values of ``--timeunit``, and the unit in the header for each."""

_FACTOR: Final = {"us": 1e-3, "ms": 1e-6, "sec": 1e-9}
_DECIMALS: Final = {"us": 3, "ms": 4, "sec": 4}

SIZE_UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "B": (1, 0),
    "KB": (10**3, 2),
    "KiB": (2**10, 2),
    "MB": (10**6, 3),
    "MiB": (2**20, 3),
    "GB": (10**9, 3),
    "GiB": (2**30, 3),
}
"""Units of sizes: bytes, and decimals in the cells."""


class Units(Struct, frozen=True):
    """Units of points in time, durations, sizes and throughputs, and whether headers name them."""

    point: str = "ns"
    duration: str = "ns"
    size: str = "MB"
    rate: str = "MB"
    in_header: bool = True

    def of_time(self, column: ReportColumn) -> str:
        """Return the unit of a column of times."""
        is_point = column.name == "End" or column.name.endswith("Start")
        return self.point if is_point else self.duration


def units_of(time_unit: str | Units) -> Units:
    """Return the units with one unit for all times; units are returned as they are."""
    return time_unit if isinstance(time_unit, Units) else Units(time_unit, time_unit)


def header(column: ReportColumn, unit: str | Units) -> str:
    """Name of a column with its unit: ``Total Time (ns)``."""
    chosen = units_of(unit)
    time = chosen.of_time(column)
    units = {
        "percent": "%",
        "time": time,
        "mean_time": time,
        "size": chosen.size,
        "rate": f"{chosen.rate}/s",
    }
    named = column.kind in units and chosen.in_header
    return f"{column.name} ({units[column.kind]})" if named else column.name


def is_text(column: ReportColumn) -> bool:
    """Whether the cells of a column are texts, which are aligned to the left."""
    return column.kind == "text"


def cells(column: ReportColumn, unit: str | Units) -> list[str]:
    """Cells of a column as text; "" for unknown values."""
    if column.kind == "text":
        return list(column.values)
    values = np.asarray(column.values)
    texts = _numbers(column, values, units_of(unit))
    if column.known is None:
        return texts
    return [text if known else "" for text, known in zip(texts, column.known, strict=True)]


def rows(report: Report, unit: str | Units) -> list[tuple[str, ...]]:
    """All rows of a report."""
    return list(zip(*(cells(column, unit) for column in report.columns), strict=True))


def _numbers(column: ReportColumn, values: npt.NDArray[np.generic], units: Units) -> list[str]:
    kind, unit = column.kind, units.of_time(column)
    if kind == "count" or (kind == "time" and unit == "ns"):
        return [str(value) for value in values.tolist()]
    if kind in ("time", "mean_time") and unit != "ns":
        # nsys rounds to a tenth of a ns, then multiplies: 107007.5 ns are 107.008 us in its
        # reports, but 187007.5 ns are 187.007 us.
        factor, decimals = _FACTOR[unit], _DECIMALS[unit]
        return [f"{value * factor:.{decimals}f}" for value in _tenths(values).tolist()]
    if kind in ("size", "rate"):
        divisor, decimals = SIZE_UNITS[units.size if kind == "size" else units.rate]
        if divisor == 1:
            return [str(value) for value in values.tolist()]
        return [f"{value / divisor:.{decimals}f}" for value in values.tolist()]
    return [f"{value:.1f}" for value in _tenths(values).tolist()]


def _tenths(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Round to one decimal, halves up, as SQLite does for nsys: 2.25 is 2.3."""
    tenths: npt.NDArray[np.float64] = np.floor(values.astype(np.float64) * 10 + 0.5) / 10
    return tenths
