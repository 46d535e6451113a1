"""Write results in the text format OpenMetrics, which Prometheus and its relatives read.

Every number is a gauge in base units (seconds, bytes, ratios), because dashboards combine gauges
of several programs. What is unavailable has no sample at all; the info metric ``ccltui_metric``
has status and reason of each metric, because the format has no comments. The text itself is
written by `prometheus_client`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from prometheus_client.core import CollectorRegistry, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest

from ccltui.metrics.result import unit_of
from ccltui.metrics.unavailable import merged_reasons
from ccltui.parsers.safe_text import safe_text
from ccltui.report.json_document import Entry, Report, head

MAX_ROWS: Final = 1000
"""Rows of a table that is written: each becomes a time series in a data base for years."""
_LONGEST: Final = 200
_PREFIX: Final = "ccltui"
_LABELS: Final = ("rank", "group", "dim", "type", "step", "stage", "host")
_TABLE: Final = re.compile(rf"(?:(?P<stem>.+)_)?(?:per|by)_(?P<label>{'|'.join(_LABELS)})")
_COLUMN: Final = re.compile(r"[A-Za-z_]\w*")
_SHARE: Final = re.compile(r"(?:^|_)share(?:_|$)")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]+")
_UNITS: Final[Mapping[str, tuple[str, float, str]]] = {
    "ns": ("seconds", 1e9, "ns"),
    "us": ("seconds", 1e6, "us"),
    "ms": ("seconds", 1e3, "ms"),
    "s": ("seconds", 1, "s"),
    "bytes": ("bytes", 1, "bytes"),
    "GB/s": ("bytes_per_second", 1e-9, "GBps"),
    "TFLOPS": ("flops", 1e-12, "tflops"),
    "tokens/s": ("tokens_per_second", 1, "tokens_per_s"),
    "1/s": ("per_second", 1, "per_s"),
    "us/MB": ("seconds_per_byte", 1e12, "us_per_MB"),
    "%": ("ratio", 100, "pct"),
    "ppb": ("ratio", 1e9, "ppb"),
    "ratio": ("ratio", 1, "ratio"),
}
"""Base unit of each unit, by what a number is divided, and how keys name the unit."""


class Number(Struct, frozen=True):
    """One number of a result: its key, unit, value and labels."""

    key: str
    unit: str
    value: float
    labels: Mapping[str, str]


class _Family(Struct):
    """Samples of one name."""

    origin: tuple[str, str]
    unit: str
    help: str
    labels: tuple[str, ...]
    samples: dict[tuple[str, ...], float]


def openmetrics(report: Report) -> bytes:
    """Return the OpenMetrics text of a report; numbers by rank and the like where it has details.

    A table with more than `MAX_ROWS` rows, or with rows that its labels do not tell apart, is left
    out, and counted in ``ccltui_rows_left_out``.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Written(report))
    return bytes(generate_latest(registry))


class _Written:
    """The families of a report, in the form that prometheus_client asks for."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> Iterator[GaugeMetricFamily | InfoMetricFamily]:
        """Yield all families."""
        yield _trace_info(self._report)
        yield _statuses(self._report.entries)
        left_out: list[tuple[str, str, int]] = []
        for name, one in _families(self._report, left_out).items():
            family = GaugeMetricFamily(name, one.help, labels=one.labels, unit=one.unit)
            for labels, value in one.samples.items():
                family.add_metric(labels, value)
            yield family
        if left_out:
            text = f"Rows of tables that are left out: over {MAX_ROWS}, or equal in all labels."
            family = GaugeMetricFamily(f"{_PREFIX}_rows_left_out", text, labels=("metric", "key"))
            for metric, key, count in left_out:
                family.add_metric((metric, key), count)
            yield family


def _trace_info(report: Report) -> InfoMetricFamily:
    start = head(report)
    trace, selection = start["trace"], start["selection"]
    stated = {
        "path": trace["path"],
        "capture": trace["capture"],
        "ranks": trace["ranks"],
        "world_size": trace["world_size"],
        "window": None if start["window"] is None else start["window"]["text"],
        **{f"selected_{name}": selection[name] for name in ("steps", "ranks", "group")},
        "span": selection["span"],
    }
    family = InfoMetricFamily(f"{_PREFIX}_trace", "Traces that the numbers are computed from.")
    family.add_metric((), {name: _text(v) for name, v in stated.items() if v not in (None, "")})
    return family


def _statuses(entries: Sequence[Entry]) -> InfoMetricFamily:
    """Return status and reasons of every metric, also of those without a number."""
    family = InfoMetricFamily(
        f"{_PREFIX}_metric",
        "Status of each metric: ok, partial (the number covers a part of the input), or "
        "unavailable (no sample is written), with the reasons.",
    )
    for entry in entries:
        reasons = merged_reasons(entry.result.reasons)
        stated = {
            "metric": entry.result.metric,
            "status": entry.result.status,
            "reason": ",".join(dict.fromkeys(code for code, _ in reasons)),
            "message": "; ".join(message for _, message in reasons),
        }
        family.add_metric((), {name: _text(value) for name, value in stated.items() if value})
    return family


def _families(report: Report, left_out: list[tuple[str, str, int]]) -> Mapping[str, _Family]:
    found: dict[str, _Family] = {}
    for entry in report.entries:
        result = entry.result
        if result.status == "unavailable":
            continue
        for number in numbers_of(entry, left_out, detail=report.detail):
            name, unit, value = _named(result.metric, number)
            labels = tuple(number.labels)
            origin = (result.metric, number.key)
            if name in found and (found[name].origin, found[name].labels) != (origin, labels):
                continue  # another key has this name already: two meanings are never mixed
            family = found.setdefault(
                name, _Family(origin, unit, _help(entry, number.key), labels, {})
            )
            family.samples.setdefault(tuple(number.labels.values()), value)
    return found


def numbers_of(
    entry: Entry, left_out: list[tuple[str, str, int]], *, detail: bool
) -> Iterator[Number]:
    """Yield the numbers of a result: the headline, other scalars, and with ``detail`` tables.

    Tables are those by rank, group, dimension, type, step, stage and host. The metric, key and
    number of rows of those that are too large are appended to ``left_out``.
    """
    result, first = entry.result, entry.headline
    if _is_number(result.value):
        unit = result.unit if result.unit in _UNITS else _unit(first)
        yield Number(first, unit, _float(result.value), {})
    for key, value in result.details.items():
        if _is_number(value) and key != first:
            yield Number(key, _unit(key), _float(value), {})
        elif detail and (table := _TABLE.fullmatch(key)):
            rows = list(_rows(value, table["label"]))
            told_apart = len({tuple(labels.items()) for labels, _ in rows}) == len(rows)
            if len(rows) > MAX_ROWS or not told_apart:
                left_out.append((result.metric, key, len(rows)))
                continue
            for labels, cells in rows:
                yield from _cells(cells, table["stem"] or "", table["label"], labels)


def _rows(table: Any, label: str) -> Iterator[tuple[Mapping[str, str], Any]]:
    """Yield labels and content of each row of a mapping by label, or of a list of records."""
    if isinstance(table, Mapping):
        for name, cells in table.items():
            yield {label: _text(name)}, cells
    elif isinstance(table, list | tuple):
        for cells in table:
            if isinstance(cells, Mapping) and isinstance(cells.get(label), str | int):
                stated = (name for name in _LABELS if isinstance(cells.get(name), str | int))
                labels = {name: _text(cells[name]) for name in stated}
                yield labels, {name: cell for name, cell in cells.items() if name not in labels}


def _cells(cells: Any, stem: str, label: str, labels: Mapping[str, str]) -> Iterator[Number]:
    if isinstance(cells, Mapping):
        for key, value in cells.items():
            if _is_number(value) and _COLUMN.fullmatch(key) and _states_unit(key, value):
                name = "_".join(part for part in (stem, key, "by", label) if part)
                yield Number(name, _unit(key), _float(value), labels)
    elif _is_number(cells) and _states_unit(stem, cells):
        name = "_".join(part for part in (stem, "by", label) if part)
        yield Number(name, _unit(stem), _float(cells), labels)


def _unit(key: str) -> str:
    return unit_of(key) or ("ratio" if _SHARE.search(key) else "")


def _states_unit(key: str, value: object) -> bool:
    """Whether it is a count, or its key has the unit: a bare number would be read as a count."""
    return isinstance(value, int) or _unit(key) != ""


def _named(metric: str, number: Number) -> tuple[str, str, float]:
    """Return name, base unit and value of a sample."""
    unit, divisor, token = _UNITS.get(number.unit, ("", 1, ""))
    key = f"_{number.key}_".replace(f"_{token}_", "_", 1) if token else number.key
    stem = _OTHER.sub("_", key.strip("_")).strip("_")
    subject = _OTHER.sub("_", metric).strip("_")
    repeats = stem == subject or stem.startswith(f"{subject}_")
    parts = (_PREFIX, "" if repeats else subject, stem)
    name = "_".join(part for part in parts if part)
    if unit and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    return name, unit, number.value / divisor


def _help(entry: Entry, key: str) -> str:
    if key == entry.headline:
        return _text(entry.result.definition, longest=500)
    return _text(f"{key} of {entry.result.metric}: {entry.result.definition}", longest=500)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _float(value: Any) -> float:
    return float(value)


def _text(value: object, *, longest: int = _LONGEST) -> str:
    text = safe_text(str(value))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
