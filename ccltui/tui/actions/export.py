"""What is in view as a file: csv or json by its ending, or a picture."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccltui.metrics.device.step_parts import PARTS
from ccltui.parsers.errors import GrammarError
from ccltui.report.csv_text import csv_text
from ccltui.report.output import check_target, write_new_file
from ccltui.tui.moves import compare_ranks, drawer, step_rows
from ccltui.tui.state import side_tables
from ccltui.tui.state.queries import steps_told
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.summary_rows import rank_columns
from ccltui.tui.state.view_state import Pane, Shown

if TYPE_CHECKING:
    from ccltui.metrics.device.repetition import Block
    from ccltui.tui.state.communicator import Communicator
    from ccltui.tui.state.event_table import EventTable

Cell = str | int | float | None
Row = dict[str, Cell]
ENDINGS = (".csv", ".json")


@dataclass(frozen=True, slots=True)
class Export:
    """Write the rows in view to a file."""

    path: str


def export_to(text: str, scene: Scene) -> Export:
    """The file that a text names. Raises GrammarError where nothing can be written."""
    path = Path(text.strip()).expanduser()
    if path.suffix not in ENDINGS:
        raise GrammarError("the name must end in .csv or .json")
    if os.path.lexists(path):  # a link to nothing too: what is written would go where it points
        raise GrammarError(f"{path} is there already")
    problem = check_target(str(path))
    if problem is not None:
        raise GrammarError(problem)
    if is_of_beginnings(scene):
        raise GrammarError("ranks are only partly read: their numbers are not written")
    if next(rows_of(scene), None) is None:
        raise GrammarError("nothing is in view that could be written")
    return Export(str(path))


def suggestion(scene: Scene) -> str:
    """A name that is free."""
    return free_name(f"ccltui-{scene.state.pane.name.lower()}", ".csv")


def free_name(stem: str, ending: str) -> str:
    """``stem`` and ``ending`` with the first number that makes a new file."""
    number = 1
    while os.path.lexists(f"{stem}-{number}{ending}"):
        number += 1
    return f"{stem}-{number}{ending}"


def write_rows(scene: Scene, path: str) -> int:
    """Write what is in view to a new file; returns the number of rows. Raises OSError."""
    rows = list(rows_of(scene))
    if path.endswith(".json"):
        data = json.dumps(rows, indent=1).encode()
    else:
        data = _delimited(rows, ",").encode()
    write_new_file(data, Path(path))
    return len(rows)


def rows_of(scene: Scene) -> Iterator[Row]:
    """Rows in view; times in ns since the job's origin. None while ranks are partly read."""
    if is_of_beginnings(scene):
        return
    if scene.state.shows_drawer and drawer.shows(scene, Shown.BLOCK):
        yield from _block(compare_ranks.block(scene))
    elif scene.state.shows_drawer and drawer.shows(scene, Shown.VERSUS):
        yield from _versus(scene)
    elif scene.state.pane is Pane.SUMMARY:
        yield from _metric(scene)
    elif scene.state.pane is Pane.STEPS:
        yield from _steps(scene)
    elif scene.state.pane in side_tables.PANES:
        yield from side_tables.records(scene)
    elif scene.state.pane is Pane.EVENTS and scene.events is not None:
        yield from _events(scene.events)
    elif scene.communicator is not None:
        yield from _collectives(scene.communicator)


def is_of_beginnings(scene: Scene) -> bool:
    """Whether anything in view may come from a rank of which only the beginning is read."""
    if scene.state.pane in (Pane.RUNS, Pane.CLUSTER):  # of other files
        return False
    results = scene.findings.results.values()
    return scene.session.ranks_partly > 0 or any(
        reason.code == "partly_read" for result in results for reason in result.reasons
    )


def _block(found: Block | None) -> Iterator[Row]:
    """Positions of a repeating block."""
    for place, one in enumerate(() if found is None else found.positions):
        times = ("median_ns", "p5_ns", "p95_ns", "spread_ns", "least_ns", "most_ns", "gap_ns")
        cells: Row = {"position": place, "name": one.name, "count": one.count}
        yield cells | {name: getattr(one, name) for name in times}


def _versus(scene: Scene) -> Iterator[Row]:
    """Kernels of both sides, as the drawer orders them."""
    found = compare_ranks.versus(scene)
    if found is None:
        return
    ops = {0: "matched", 1: "added", -1: "missing"}
    for row in compare_ranks.rows(scene):
        starts, durs = found.start_ns[:, row].tolist(), found.dur_ns[:, row].tolist()
        yield {
            "op": ops[int(found.op[row])],
            "name": found.names[found.name[row]],
            "stream": found.streams[found.stream[row]],
            "start_ns": None if durs[0] < 0 else starts[0],
            "dur_ns": None if durs[0] < 0 else durs[0],
            "other_start_ns": None if durs[1] < 0 else starts[1],
            "other_dur_ns": None if durs[1] < 0 else durs[1],
            "change_ns": int(found.change_ns[row]),
        }


def _steps(scene: Scene) -> Iterator[Row]:
    """Parts of every step on every rank."""
    parts = steps_told(scene)
    if parts is None:
        return
    for row in step_rows.order(scene):
        for column, label in enumerate(parts.labels):
            if parts.start_ns[row, column] >= 0:
                spent = parts.parts_ns[:, row, column].tolist()
                yield {
                    "step": parts.steps[row],
                    "rank": label,
                    "start_ns": int(parts.start_ns[row, column]),
                    "length_ns": int(parts.length_ns[row, column]),
                    **{f"{name}_ns": ns for name, ns in zip(PARTS, spent, strict=True)},
                }


def tabular(scene: Scene) -> tuple[str, int]:
    """Rows in view as lines of cells apart by tabs, with a heading, and how many there are."""
    rows = list(rows_of(scene))
    if not rows:
        return "", 0
    return _delimited(rows, "\t"), len(rows)


def _delimited(rows: Sequence[Row], delimiter: str) -> str:
    """A heading and the rows, whose cells all have the names of the first."""
    names = list(rows[0]) if rows else []
    return csv_text(
        [names, *([row.get(name) for name in names] for row in rows)], delimiter=delimiter
    )


def _metric(scene: Scene) -> Iterator[Row]:
    """The selected metric rank by rank."""
    metrics, labels = scene.findings.metrics, tuple(scene.findings.lanes)
    if not metrics:
        return
    metric = metrics[min(scene.state.metric, len(metrics) - 1)]
    result = scene.findings.results.get(metric.name)
    if result is None or result.value is None:
        return
    columns = rank_columns(result, labels)
    yield {"rank": None, "value": result.value, **dict.fromkeys(columns)}
    for label in labels if columns else ():
        cells = {name: column.get(label) for name, column in columns.items()}
        yield {"rank": label, "value": None, **cells}


def _events(table: EventTable) -> Iterator[Row]:
    for row in table.order.tolist():
        cells: Row = {
            "start_ns": table.time_ns(row),
            "dur_ns": int(table.dur_ns[row]),
            "name": table.name_of(row),
        }
        if table.calls is not None:
            columns = ("k", "lag_ns", "late_ns", "message_bytes", "step")
            known = {name: int(getattr(table.calls, name)[row]) for name in columns}
            cells |= {name: None if value < 0 else value for name, value in known.items()}
        yield {"rank": table.query.rank, **cells}


def _collectives(one: Communicator) -> Iterator[Row]:
    """Every collective of the communicator, with how late each rank was."""
    for k in range(len(one)):
        late = {f"late_ns_{label}": int(one.late_ns[k, i]) for i, label in enumerate(one.labels)}
        cells: dict[str, int] = {
            "start_ns": int(one.first_ns[k]),
            "lag_ns": int(one.lag_ns[k]),
            "message_bytes": int(one.message_bytes[k]),
            "step": int(one.step[k]),
            **late,
        }
        shown = {
            name: None if value < 0 and name != "start_ns" else value
            for name, value in cells.items()
        }
        yield {
            "communicator": one.name,
            "k": k,
            "type": one.type_of(k),
            "last": one.culprit(k),
            **shown,
        }
