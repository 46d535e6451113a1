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
    import pyarrow

    from ccltui.metrics.view.job_view import View

NEEDS_PYARROW: Final = "this needs pyarrow: install ccltui[arrow]"
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
    pa = _pyarrow()
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = _schema(pa, table.columns)
    # Times and numbers hardly repeat: dictionaries of them would cost half of the time.
    texts = [name for name, (kind, _) in table.columns.items() if kind == "text"]
    options = {"compression": "zstd", "use_dictionary": texts}
    count = 0
    with streamed(path) as file, pq.ParquetWriter(file, schema, **options) as writer:
        for part in table.parts(view):
            arrays = [_array(pa, part, field) for field in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(arrays[0])
    return count


def arrow_table(
    columns: Mapping[str, tuple[str, str]], parts: Iterable[Mapping[str, Column | Text]]
) -> pyarrow.Table:
    """Return parts of a table as one pyarrow table with nulls where nothing is recorded.

    Raises:
        MissingPackageError: pyarrow is absent.
    """
    pa = _pyarrow()
    schema = _schema(pa, columns)
    batches = [
        pa.Table.from_arrays([_array(pa, part, field) for field in schema], schema=schema)
        for part in parts
    ]
    return pa.concat_tables(batches).unify_dictionaries() if batches else schema.empty_table()


def _pyarrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415
    except ImportError:
        raise MissingPackageError(NEEDS_PYARROW) from None
    return pyarrow


def _schema(pa: Any, columns: Mapping[str, tuple[str, str]]) -> Any:
    types = {"text": pa.dictionary(pa.int32(), pa.string())}
    return pa.schema(
        [
            pa.field(name, types.get(kind) or pa.type_for_alias(kind), metadata={"meaning": text})
            for name, (kind, text) in columns.items()
        ]
    )


def _array(pa: Any, part: Mapping[str, Column | Text], field: Any) -> Any:
    column = part[field.name]
    if isinstance(column, Text):
        texts = [text.encode("utf-8", "replace").decode() for text in column.texts]
        ids = pa.array(column.ids.astype(np.int32), mask=column.ids < 0)
        return pa.DictionaryArray.from_arrays(ids, pa.array(texts, pa.string()))
    values = column.astype(field.type.to_pandas_dtype(), copy=False)
    return pa.array(values, mask=~_is_known(field.name, column))
