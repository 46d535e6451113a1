"""Tables of a job for other programs, with documented columns, as Parquet or csv files.

Times are ns since the origin of the view on the corrected clock. A value that is not recorded or
not known is null, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ccltui.metrics import registry
from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS
from ccltui.metrics.view.instances import matched_calls
from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import GROUPS, MISSING, Events, Group, RankTrace
from ccltui.report.output import streamed
from ccltui.report.result_rows import csv_text

if TYPE_CHECKING:
    import pyarrow

    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

Column = np.ndarray[Any, np.dtype[Any]]


class Text(NamedTuple):
    """A column of texts as ids into a list of distinct ones; a negative id is null."""

    ids: Column
    texts: list[str]


Part = Mapping[str, Column | Text]
"""Some rows of a table, by column."""


class Table(NamedTuple):
    """One table: the meaning of each column, its type, and a function that yields its parts."""

    columns: Mapping[str, tuple[str, str]]
    parts: Callable[[View], Iterator[Part]]


def _events(view: View) -> Iterator[Part]:
    for rank in view.ranks:
        yield from events_of_rank(view, rank, GROUPS)


def events_of_rank(view: View, rank: RankView, groups: Sequence[Group]) -> Iterator[Part]:
    """Yield the selected events of some groups of a rank, as parts of the table of events."""
    for group in groups:
        events = rank.trace.group(group)
        inside = rank.contains(events.start_ns)
        if inside.any():
            yield _events_of(view, rank, group, events if inside.all() else events.take(inside))


def _events_of(view: View, rank: RankView, group: Group, events: Events) -> Part:
    trace, count = rank.trace, len(events)
    tracks = trace.tracks
    threads = sorted({one.tid for one in tracks if one.kind == "thread"})
    of_thread = [threads.index(one.tid) if one.kind == "thread" else MISSING for one in tracks]
    of_track = {  # the last entry serves events without a track
        "device": np.array([one.device for one in tracks] + [MISSING], np.int32),
        "stream": np.array([one.stream for one in tracks] + [MISSING], np.int32),
        "thread": np.array([*of_thread, MISSING], np.int32),
    }
    return {
        "rank": _constant(rank.label, count),
        "group": _constant(group, count),
        "name": _texts(trace, events.name),
        "category": _texts(trace, events.category),
        "start_ns": view.on_job_clock(rank.label, events.start_ns) - view.origin_ns,
        "dur_ns": events.dur_ns,
        "device": of_track["device"][events.track],
        "stream": of_track["stream"][events.track],
        "thread": Text(of_track["thread"][events.track], threads),
        "correlation": events.correlation,
        "external_id": events.external_id,
        "bytes": events.bytes,
    }


def _texts(trace: RankTrace, ids: Column) -> Text:
    used, place = np.unique(ids, return_inverse=True)
    texts = [trace.text(one) if one >= 0 else "" for one in used.tolist()]
    return Text(np.where(ids >= 0, place, MISSING), texts)


def _constant(text: str, count: int) -> Text:
    return Text(np.zeros(count, np.int32), [text])


def _collectives(view: View) -> Iterator[Part]:
    for group in matched_calls(view):
        yield {
            "communicator": _constant(group.communicator, len(group.member)),
            "instance": group.instance,
            "rank": Text(group.member, list(group.labels)),
            "type": Text(group.kind, list(TYPES)),
            "dimension": Text(group.dim, list(DIMS)),
            "start_ns": group.start_ns,
            "dur_ns": group.dur_ns,
            "message_bytes": group.message_bytes,
            "step": group.step,
            "seq": group.seq,
            "late_ns": group.late_ns,
            "wait_ns": group.wait_ns,
            "lag_ns": group.lag_ns,
            "latest_rank": Text(group.last, list(group.labels)),
            "confidence": Text(group.confidence, list(CONFIDENCES)),
        }


def _steps(view: View) -> Iterator[Part]:
    for rank in view.ranks:
        steps = rank.steps
        own = np.array([(step.start_ns, step.end_ns) for step in steps], np.int64).reshape(-1, 2)
        if len(own):
            start, end = (view.on_job_clock(rank.label, own) - view.origin_ns).T
            yield {
                "rank": _constant(rank.label, len(steps)),
                "step": np.array([step.id for step in steps], np.int64),
                "start_ns": start,
                "dur_ns": end - start,
            }


def _metrics(view: View) -> Iterator[Part]:
    for metric in registry.metrics().values():
        if not metric.in_all:
            continue
        result = metric.run(view)
        numbers = {
            key: float(value)
            for key, value in {**result.details, metric.headline: result.value}.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and key in metric.keys
        }
        numbers = numbers or {metric.headline: np.nan}
        count = len(numbers)
        yield {
            "metric": _constant(metric.name, count),
            "key": Text(np.arange(count), list(numbers)),
            "value": np.array(list(numbers.values()), np.float64),
            "unit": _of_headline(metric.headline, list(numbers), metric.unit),
            "status": _constant(result.status, count),
            "reason": _constant("; ".join(one.message for one in result.reasons), count),
        }


def _of_headline(headline: str, keys: list[str], unit: str) -> Text:
    """State the unit at the headline; the other keys carry theirs in their names."""
    return Text(np.array([0 if key == headline else MISSING for key in keys], np.int32), [unit])


TABLES: Final[Mapping[str, Table]] = {
    "events": Table(
        {
            "rank": ("text", "label of the rank"),
            "group": ("text", "group of events: gpu, runtime, cpu_ops, annotations, python, …"),
            "name": ("text", "name as recorded"),
            "category": ("text", "category as recorded"),
            "start_ns": ("int64", "start on the corrected clock, ns since the origin of the job"),
            "dur_ns": ("int64", "duration"),
            "device": ("int32", "number of the device; null on the host"),
            "stream": ("int32", "number of the stream; null on the host"),
            "thread": ("text", "thread on the host; null on a device"),
            "correlation": ("int64", "number that a launch and its device work share"),
            "external_id": ("int64", "number of the operator that was running"),
            "bytes": ("int64", "bytes of a copy or fill"),
        },
        _events,
    ),
    "collectives": Table(
        {
            "communicator": ("text", "label of the process group"),
            "instance": ("int64", "number of the collective in its communicator"),
            "rank": ("text", "label of the rank that made this call"),
            "type": ("text", "type of the collective"),
            "dimension": ("text", "parallel dimension: dp, tp, pp, ep, cp, world, unknown"),
            "start_ns": ("int64", "start on the corrected clock, ns since the origin of the job"),
            "dur_ns": ("int64", "duration"),
            "message_bytes": ("int64", "message size"),
            "step": ("int64", "step in which it began"),
            "seq": ("int64", "sequence number that the library or profiler recorded"),
            "late_ns": ("int64", "arrival of the rank after the first one"),
            "wait_ns": ("int64", "wait of the rank for the last one"),
            "lag_ns": ("int64", "longest wait of any rank"),
            "latest_rank": ("text", "rank that the others waited for; null in a tie"),
            "confidence": ("text", "confidence of the match: low, medium or high"),
        },
        _collectives,
    ),
    "steps": Table(
        {
            "rank": ("text", "label of the rank"),
            "step": ("int64", "id of the step"),
            "start_ns": ("int64", "start of the step marker, ns since the origin of the job"),
            "dur_ns": ("int64", "duration of the step marker"),
        },
        _steps,
    ),
    "metrics": Table(
        {
            "metric": ("text", "name of the metric"),
            "key": ("text", "key of a number"),
            "value": ("float64", "the number; null where it is unavailable"),
            "unit": ("text", "unit of the headline; other keys carry theirs in their names"),
            "status": ("text", "ok, partial or unavailable"),
            "reason": ("text", "reasons of partial and unavailable results"),
        },
        _metrics,
    ),
}
"""Tables by name, in the order of their files."""

SIGNED: Final = frozenset({"start_ns", "value"})
"""Columns in which a negative number is a value."""


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
