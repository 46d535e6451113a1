"""Write one table of many directories: key facts of their cards and values of all metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field, structs

from ccltui.report.csv_text import csv_text
from ccltui.report.result_rows import cell_text
from ccltui.report.text_layout import code, escaped, markdown_table, table, text_bytes

SCHEMA_VERSION: Final = 1
FACTS: Final = (
    "model_family",
    "phase",
    "moe",
    "precision",
    "framework",
    "gpu_model",
    "total_count",
    "batch_size",
    "seq_len",
    "dp_replicate",
    "dp_shard",
    "tp",
    "pp",
    "cp",
    "ep",
)
"""Fields of the workload card that distinguish workloads."""
TRACE_FACTS: Final = (
    *("device", "hosts", "ranks", "world_size", "profiler", "capture", "card_problem"),
)
"""Facts about the traces: device names, number of hosts and ranks, profiler, capture."""
CATEGORIES: Final = (
    *("throughput", "time", "communication", "stragglers", "kernels", "memory"),
    *("experts", "inference", "runs", "cluster"),
)
"""Order of the categories of metrics; others follow."""

_BETTER: Final = {True: "↑", False: "↓", None: ""}


class MetricColumn(Struct, frozen=True):
    """Display properties of one metric; the names are those of the JSON form."""

    name: str
    label: str
    unit: str
    higher_is_better: bool | None
    category: str
    definition: str

    @property
    def column(self) -> str:
        """Heading of its column."""
        return f"{self.name} [{self.unit}]"


class Outcome(Struct, frozen=True):
    """Value of one metric for one directory, or the reason why there is none.

    ``parts`` are the shares that the value consists of by name, the largest first.
    """

    value: float | int | None
    status: str
    reason: str | None = None
    message: str | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with ``parts`` where there are any."""
        document = structs.asdict(self)
        if not self.parts:
            del document["parts"]
        return document

    @property
    def parts_text(self) -> str:
        """The parts in percent: ``tp 60 %, dp 40 %``; "" without any."""
        return ", ".join(f"{name} {100 * share:.3g} %" for name, share in self.parts.items())


class Row(Struct, frozen=True):
    """One directory.

    Attributes:
        directory: Its path.
        facts: Facts of the card and of the traces by name.
        outcomes: Results by name of the metric.
        problem: Reason why nothing could be opened.
        lost: Problems of files that could not be inspected, see
            :class:`ccltui.parsers.ingest.load.Failed`.
    """

    directory: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    problem: str | None = None
    lost: tuple[str, ...] = ()


class Catalogue(Struct, frozen=True):
    """All directories, in the order given, and the metrics that were computed."""

    metrics: Sequence[MetricColumn]
    rows: Sequence[Row]


Writer = Callable[[Catalogue], bytes]


def write_csv(catalogue: Catalogue) -> bytes:
    """Csv with a line per directory; an absent value is an empty cell.

    Values that consist of named parts have these in a further column.
    The last columns list partial and unavailable metrics with their reasons, and the problem.
    """
    columns = [metric.column for metric in catalogue.metrics]
    names = [metric.name for metric in catalogue.metrics]
    divided = [one for one in names if any(_parts_text(row, one) for row in catalogue.rows)]
    columns += [f"{name} by part" for name in divided]
    rows = [["directory", *FACTS, *TRACE_FACTS, *columns, "partial", "unavailable", "problem"]]
    rows += [
        [
            row.directory,
            *(cell_text(row.facts.get(name)) for name in (*FACTS, *TRACE_FACTS)),
            *(cell_text(_value(row, metric)) for metric in catalogue.metrics),
            *(_parts_text(row, name) for name in divided),
            _reasons(row, "partial"),
            _reasons(row, "unavailable"),
            row.problem or "",
        ]
        for row in catalogue.rows
    ]
    return csv_text(rows).encode()


def write_json(catalogue: Catalogue) -> bytes:
    """One JSON document: display properties of every metric, then the directories."""
    from ccltui.report.printable_json import json_bytes  # noqa: PLC0415  (orjson)

    rows = [
        {
            "directory": row.directory,
            "problem": row.problem,
            "facts": dict(row.facts),
            "results": {name: outcome.to_dict() for name, outcome in row.outcomes.items()},
        }
        for row in catalogue.rows
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "metrics": [structs.asdict(metric) for metric in catalogue.metrics],
        "rows": rows,
    }
    return json_bytes(document, indent=True)


def write_markdown(catalogue: Catalogue) -> bytes:
    """Markdown with a line per metric and a column per directory; arrows show which way is better.

    The reasons of partial and unavailable values follow below the table.
    """
    header, body = _transposed(catalogue)
    notes = [f"- {code(name)}{escaped(note)}" for name, note in _notes(catalogue)]
    return _with_notes(markdown_table(header, body), notes)


def write_table(catalogue: Catalogue) -> bytes:
    """The table of write_markdown as aligned text."""
    notes = [f"`{name}`{note}" for name, note in _notes(catalogue)]
    return _with_notes(table(*_transposed(catalogue)), notes)


def _with_notes(lines: Sequence[str], notes: Sequence[str]) -> bytes:
    return text_bytes([*lines, "", _LEGEND, *([""] if notes else []), *notes])


_LEGEND: Final = (
    "↑ higher is better, ↓ lower is better, * covers a part of the input, – unavailable"
)


def _notes(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield each directory with its problem, or the reasons of partial and unavailable values."""
    for row in catalogue.rows:
        if row.problem:
            yield row.directory, f": {row.problem}"
            continue
        for status in ("partial", "unavailable"):
            reasons: dict[str, list[str]] = {}
            for metric in catalogue.metrics:
                outcome = row.outcomes.get(metric.name)
                if outcome is not None and outcome.status == status:
                    reasons.setdefault(outcome.reason or status, []).append(metric.name)
            text = "; ".join(f"{reason} ({', '.join(names)})" for reason, names in reasons.items())
            if text:
                yield row.directory, f" {status}: {text}"


WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "markdown": write_markdown,
    "csv": write_csv,
    "json": write_json,
}


def _transposed(catalogue: Catalogue) -> tuple[list[str], list[list[str]]]:
    """Header and lines with a column per directory: facts first, then metrics by category."""
    header = ["category", "metric", "unit", *(row.directory for row in catalogue.rows)]
    facts = [name for name in (*FACTS, *TRACE_FACTS) if any(_fact(r, name) for r in catalogue.rows)]
    body = [["facts", name, "", *(_fact(row, name) for row in catalogue.rows)] for name in facts]
    order = list(dict.fromkeys((*CATEGORIES, *(one.category for one in catalogue.metrics))))
    for metric in sorted(catalogue.metrics, key=lambda metric: order.index(metric.category)):
        title = f"{metric.label} {_BETTER[metric.higher_is_better]}".strip()
        cells = [_short(row, metric) for row in catalogue.rows]
        body.append([metric.category, title, metric.unit, *cells])
    return header, body


def _fact(row: Row, name: str) -> str:
    return cell_text(row.facts.get(name))


def _value(row: Row, metric: MetricColumn) -> float | int | None:
    outcome = row.outcomes.get(metric.name)
    return None if outcome is None else outcome.value


def _short(row: Row, metric: MetricColumn) -> str:
    """Value with six digits for people; a star marks a partial value."""
    outcome = row.outcomes.get(metric.name)
    if outcome is None or outcome.value is None:
        return "–"
    value = outcome.value
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text += "*" if outcome.status == "partial" else ""
    return f"{text} ({outcome.parts_text})" if outcome.parts else text


def _parts_text(row: Row, name: str) -> str:
    outcome = row.outcomes.get(name)
    return "" if outcome is None else outcome.parts_text


def _reasons(row: Row, status: str) -> str:
    found = [(name, out) for name, out in row.outcomes.items() if out.status == status]
    return "; ".join(f"{name}: {outcome.reason}" for name, outcome in found)
