"""Read tables of `nsys recipe`: summaries of many files in csv or Parquet, in ns without units."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.text_reports.first_bytes import RECIPES

_NAMES: Final[Mapping[str, str]] = {
    **{"Time": "Time (%)", "Total Time": "Total Time (ns)", "Sum": "Total Time (ns)"},
    **{"Avg": "Avg (ns)", "Mean": "Avg (ns)", "Med": "Med (ns)", "Median": "Med (ns)"},
    **{"StdDev": "StdDev (ns)", "Std": "StdDev (ns)"},
    **{name: f"{name} (ns)" for name in ("Q1", "Q3", "Min", "Max")},
}
_FIRST: Final = ("Name", "Text")
_ABSENT: Final = (
    "a table of nsys recipe that needs pyarrow: install ccltui[arrow], or run the recipe with --csv"
)


def with_units(text: str) -> str:
    """Rename the columns of a recipe's csv to those of `nsys stats`, with units.

    Other texts are returned unchanged.
    """
    if not text.startswith(RECIPES):
        return text
    header, end, rest = text.partition("\n")
    return ",".join(_NAMES.get(name, name) for name in header.rstrip("\r").split(",")) + end + rest


def text_of_parquet(data: bytes, shown: str) -> str:
    """Convert a recipe's Parquet file to csv.

    Raises:
        TraceError: pyarrow is absent, or the file is not the table of a known recipe.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise TraceError(_ABSENT, path=Path(shown)) from None
    try:
        table = pq.read_table(io.BytesIO(data))
        columns: dict[str, Sequence[Any]] = table.to_pydict()
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"a Parquet file that cannot be read: {why}", path=Path(shown)) from error
    # pandas writes its index, here the names of the rows, after the other columns.
    names = sorted(columns, key=lambda name: name not in _FIRST)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*(columns[name] for name in names), strict=True))
    text = target.getvalue()
    if not text.startswith(RECIPES):
        raise TraceError("a Parquet file of no recipe that is known here", path=Path(shown))
    return text
