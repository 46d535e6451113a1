"""Format cells of a report as nsys does: units in the header, digits by unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

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


def header(column: ReportColumn, unit: str) -> str:
    """Name of a column with its unit: ``Total Time (ns)``."""
    units = {
        "percent": "%",
        "time": unit,
        "mean_time": unit,
        "size": "MB",
        "rate": "MB/s",
    }
    return f"{column.name} ({units[column.kind]})" if column.kind in units else column.name


def is_text(column: ReportColumn) -> bool:
    """Whether the cells of a column are texts, which are aligned to the left."""
    return column.kind == "text"


def cells(column: ReportColumn, unit: str) -> list[str]:
    """Cells of a column as text; "" for unknown values."""
    if column.kind == "text":
        return list(column.values)
    values = np.asarray(column.values)
    texts = _numbers(column.kind, values, unit)
    if column.known is None:
        return texts
    return [text if known else "" for text, known in zip(texts, column.known, strict=True)]


def rows(report: Report, unit: str) -> list[tuple[str, ...]]:
    """All rows of a report."""
    return list(zip(*(cells(column, unit) for column in report.columns), strict=True))


def _numbers(kind: str, values: npt.NDArray[np.generic], unit: str) -> list[str]:
    if kind == "count" or (kind == "time" and unit == "ns"):
        return [str(value) for value in values.tolist()]
    if kind in ("time", "mean_time") and unit != "ns":
        # nsys rounds to a tenth of a ns, then multiplies: 107007.5 ns are 107.008 us in its
        # reports, but 187007.5 ns are 187.007 us.
        factor, decimals = _FACTOR[unit], _DECIMALS[unit]
        return [f"{round(value, 1) * factor:.{decimals}f}" for value in values.tolist()]
    if kind in ("size", "rate"):
        return [f"{value / 1_000_000:.3f}" for value in values.tolist()]
    return [f"{value:.1f}" for value in values.tolist()]
