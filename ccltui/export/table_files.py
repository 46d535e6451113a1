"""Write the tables of a job as Parquet or csv files, one file a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.export.table_columns import SIGNED, TABLES, Column, Table, Text
from ccltui.parsers.array_types import Bool
from ccltui.report.csv_text import csv_text
from ccltui.report.output import streamed

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

NEEDS_PYARROW: Final = "Parquet needs pyarrow: install ccltui[arrow]"
CSV_ROWS: Final = 50_000


class MissingPackageError(ImportError):
    """An optional package is absent; the message names it and how to install it."""


def write_tables(
    view: View,
    names: Iterable[str],
    folder: Path,
    suffix: str,
    *,
    done: Callable[[str, int], None] = lambda _name, _rows: None,
) -> None:
    """Write tables to ``folder``, which exists, each whole or not at all.

    Args:
        view: the job.
        names: names in `TABLES`.
        folder: folder of the files.
        suffix: "parquet" or "csv".
        done: called with the name and the number of rows of each table that is written.

    Raises:
        MissingPackageError: Parquet without pyarrow.
        OSError: a file cannot be written, or exists.
    """
    write = _write_parquet if suffix == "parquet" else _write_csv
    for name in names:
        done(name, write(view, TABLES[name], folder / f"{name}.{suffix}"))


def _write_csv(view: View, table: Table, path: Path) -> int:
    count = 0
    with streamed(path) as file:
        file.write(csv_text([list(table.columns)]).encode())
        for part in table.parts(view):
            cells = [_cells(name, part[name]) for name in table.columns]
            size = len(cells[0])
            for start in range(0, size, CSV_ROWS):
                chunk = [column[start : start + CSV_ROWS] for column in cells]
                file.write(csv_text(zip(*chunk, strict=True)).encode())
            count += size
    return count


def _cells(name: str, column: Column | Text) -> list[Any]:
    if isinstance(column, Text):
        texts: list[str | None] = [*column.texts, None]  # the last serves the id -1
        return [texts[id_] for id_ in np.maximum(column.ids, -1).tolist()]
    known = _is_known(name, column).tolist()
    return [value if here else None for value, here in zip(column.tolist(), known, strict=True)]


def _is_known(name: str, column: Column) -> Bool:
    """Mask of the values that are not null."""
    if column.dtype.kind == "f":
        return np.asarray(~np.isnan(column))
    return np.ones(len(column), np.bool_) if name in SIGNED else np.asarray(column >= 0)


def _write_parquet(view: View, table: Table, path: Path) -> int:
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(NEEDS_PYARROW) from None
    types = {"text": pa.dictionary(pa.int32(), pa.string())}
    schema = pa.schema(
        [
            pa.field(name, types.get(kind) or pa.type_for_alias(kind), metadata={"meaning": text})
            for name, (kind, text) in table.columns.items()
        ]
    )
    count = 0
    # Times and numbers hardly repeat: dictionaries of them would cost half of the time.
    texts = [name for name, (kind, _) in table.columns.items() if kind == "text"]
    options = {"compression": "zstd", "use_dictionary": texts}
    with streamed(path) as file, pq.ParquetWriter(file, schema, **options) as writer:
        for part in table.parts(view):
            arrays = [_array(pa, part, field) for field in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(arrays[0])
    return count


def _array(pa: Any, part: Mapping[str, Column | Text], field: Any) -> Any:
    column = part[field.name]
    if isinstance(column, Text):
        texts = [text.encode("utf-8", "replace").decode() for text in column.texts]
        ids = pa.array(column.ids.astype(np.int32), mask=column.ids < 0)
        return pa.DictionaryArray.from_arrays(ids, pa.array(texts, pa.string()))
    values = column.astype(field.type.to_pandas_dtype(), copy=False)
    return pa.array(values, mask=~_is_known(field.name, column))
