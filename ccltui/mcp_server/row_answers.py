"""Answers in rows: tables, collectives, one event, a window, and the comparison of two jobs."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ccltui.export.table_columns import SIGNED, TABLES, Column, Part, Text, events_of_rank
from ccltui.mcp_server.answer_pages import SECTIONS, clipped, paged
from ccltui.mcp_server.job_answers import Arguments, OpenedJobs, result_head, selection_of
from ccltui.metrics import registry
from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.compare.compare_jobs import compare_jobs
from ccltui.metrics.compare.job_side import job_table
from ccltui.metrics.compare.job_table import JobTable
from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.inspection.event_facts import EventRef
from ccltui.metrics.inspection.event_report import find_event, inspect_event
from ccltui.metrics.view.collective_selection import describe_group
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.matched_calls import GroupCalls, matched_calls
from ccltui.parsers.columns import GROUPS
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.names import printable
from ccltui.report.job_diff.diff_document import document

WINDOW_METRICS: Final = (
    "temporal_breakdown",
    "exposed_communication",
    "straggler_lag",
    "coll_call_num",
)
"""What the ranks did in a window, and how long they waited for one another."""
_EVENT_COLUMNS: Final = ("rank", "name", "start_ns", "dur_ns", "stream")
_COLLECTIVE_COLUMNS: Final = (
    "communicator",
    "instance",
    "type",
    "dimension",
    "step",
    "start_ns",
    "lag_ns",
    "latest_rank",
    "message_bytes",
    "confidence",
)


def table(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Return rows of a table of ``ccltui export``, filtered and sorted."""
    name = arguments["table"]
    if name not in TABLES:
        raise GrammarError(f"no table {name[:80]!r}; there are {', '.join(TABLES)}")
    view = jobs.view(arguments["path"], arguments, selection_of(arguments))
    columns = tuple(arguments.get("columns") or TABLES[name].columns)
    return _rows(name, TABLES[name].parts(view), columns, arguments)


def window(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Return metrics of a part of the time, and the longest device work in it as rows."""
    if not (arguments.get("window") or arguments.get("steps")):
        raise GrammarError("state the window (1s/2s) or the steps (3-5)")
    view = jobs.view(arguments["path"], arguments, selection_of(arguments))
    results = [registry.find(name).run(view) for name in WINDOW_METRICS]
    parts = (part for rank in view.ranks for part in events_of_rank(view, rank, ["gpu"]))
    head = {"metrics": [result_head(result) for result in results], "rows_are": "device work"}
    order = {"sort": "-dur_ns", "cursor": arguments.get("cursor")}
    return {**head, **_rows("events", parts, _EVENT_COLUMNS, order)}


def _rows(
    name: str, parts: Iterator[Part], columns: Sequence[str], arguments: Arguments
) -> dict[str, Any]:
    where: Mapping[str, str] = arguments.get("where") or {}
    sort = arguments.get("sort") or ""
    known = TABLES[name].columns
    for column in (*columns, *where, *([sort.removeprefix("-")] if sort else [])):
        if column not in known:
            raise GrammarError(f"{name} has no column {column[:80]!r}; it has {', '.join(known)}")
    taken = [(part, np.flatnonzero(_mask(part, where))) for part in parts]
    sizes = np.array([len(rows) for _, rows in taken], np.int64)
    first = np.concatenate([[0], np.cumsum(sizes)])
    order = np.arange(first[-1]) if not sort else _order(taken, sort, known)

    def row(index: int) -> list[Any]:
        at = int(order[index])
        part = int(np.searchsorted(first, at, side="right")) - 1
        columns_of, rows = taken[part]
        return [
            _cell(column, columns_of[column], int(rows[at - first[part]])) for column in columns
        ]

    return paged(
        {"table": name},
        columns,
        int(first[-1]),
        row,
        cursor=arguments.get("cursor") or 0,
        limit=arguments.get("limit"),
    )


def _mask(part: Part, where: Mapping[str, str]) -> Column:
    first = next(iter(part.values()))
    mask = np.ones(len(first.ids if isinstance(first, Text) else first), np.bool_)
    for name, wanted in where.items():
        column = part[name]
        if isinstance(column, Text):
            fits = [fnmatch.fnmatchcase(text, wanted) for text in column.texts]
            mask &= np.array([*fits, False], np.bool_)[np.maximum(column.ids, -1)]
        else:
            low, high = _limits(name, wanted)
            mask &= (column >= low) & (column <= high)
            if name not in SIGNED:
                mask &= column >= 0  # negative is not recorded
    return mask


def _limits(name: str, text: str) -> tuple[float, float]:
    low, separator, high = text.partition("..")
    try:
        least = float(low) if low else -np.inf
        most = float(high) if high else np.inf
    except ValueError:
        raise GrammarError(f"{name}: {text[:80]!r} is not N, A..B, A.. or ..B") from None
    return (least, most) if separator else (least, least)


def _order(
    taken: Sequence[tuple[Part, Column]], sort: str, known: Mapping[str, tuple[str, str]]
) -> Column:
    name = sort.removeprefix("-")
    if known[name][0] == "text":
        raise GrammarError(f"sort by a column of numbers; {name} has texts")
    values = [np.asarray(part[name])[rows] for part, rows in taken]
    keys = np.concatenate([np.empty(0), *values])
    return np.argsort(-keys if sort.startswith("-") else keys, kind="stable")


def _cell(name: str, column: Column | Text, row: int) -> Any:
    """One value, None where nothing is recorded, as in the files of ``ccltui export``."""
    if isinstance(column, Text):
        return column.texts[int(column.ids[row])] if column.ids[row] >= 0 else None
    value = column[row].item()
    if isinstance(value, float):
        return None if np.isnan(value) else value
    return value if value >= 0 or name in SIGNED else None


def collective(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Return the collectives with the longest lag first; or one of them with its ranks."""
    view = jobs.view(arguments["path"], arguments, selection_of(arguments))
    name, instance = arguments.get("communicator"), arguments.get("instance")
    if instance is not None:
        return _one_collective(view, name, instance, arguments.get("cursor") or 0)
    found = [group for group in matched_calls(view) if name in (None, group.communicator)]
    first = [np.unique(group.instance, return_index=True)[1] for group in found]
    number = np.repeat(np.arange(len(found)), [len(rows) for rows in first])
    rows = np.concatenate([np.empty(0, np.int64), *first])
    lag = np.concatenate(
        [np.empty(0), *(group.lag_ns[at] for group, at in zip(found, first, strict=True))]
    )
    order = np.argsort(-lag, kind="stable")

    def row(index: int) -> tuple[Any, ...]:
        at = order[index]
        return _collective_row(found[number[at]], int(rows[at]))

    cursor = arguments.get("cursor") or 0
    return paged(
        {"sorted_by": "lag_ns, longest first"}, _COLLECTIVE_COLUMNS, len(rows), row, cursor=cursor
    )


def _collective_row(group: GroupCalls, row: int) -> tuple[Any, ...]:
    def known(values: Column) -> int | None:
        return int(values[row]) if values[row] >= 0 else None

    return (
        group.communicator,
        int(group.instance[row]),
        group.type_of(row),
        group.dimension_of(row),
        known(group.step),
        int(group.start_ns[row]),
        known(group.lag_ns),
        group.last_of(row),
        known(group.message_bytes),
        CONFIDENCES[int(group.confidence[row])],
    )


def _one_collective(view: View, name: str | None, row: int, cursor: int) -> dict[str, Any]:
    groups = view.arrivals.groups
    names = [str(describe_group(view, one.match.group)["group"]) for one in groups]
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise GrammarError(f"state the communicator; there are {', '.join(names[:20])}")
    try:
        found = describe(view, names.index(name), row)
    except IndexError as error:
        raise GrammarError(f"{name}: {error}") from None
    facts = found.to_dict()
    del facts["arrivals_us"], facts["wait_us"]  # the rows have them
    members = found.members

    def cells(index: int) -> tuple[Any, ...]:
        one = members[index]
        return (
            one.label,
            one.host,
            one.late_ns,
            one.start_late_ns,
            one.wait_ns,
            one.dur_ns,
            one.doing,
            one.doing_ns,
        )

    columns = (
        "rank",
        "host",
        "late_ns",
        "start_late_ns",
        "wait_ns",
        "dur_ns",
        "doing",
        "doing_ns",
    )
    head = {**clipped(facts), "absent": clipped(list(found.absent))}
    return paged(head, columns, len(members), cells, cursor=cursor)


def kernel(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Return all that is recorded of one event, and the events related to it as rows."""
    view = jobs.view(arguments["path"], arguments, selection_of(arguments))
    kind = arguments.get("kind") or "gpu"
    if kind not in GROUPS:
        raise GrammarError(f"no kind {kind[:80]!r}; there are {', '.join(GROUPS)}")
    rank = arguments.get("rank") or next(iter(view.facts.ranks), "")
    row = arguments.get("row")
    try:
        event = (
            find_event(
                view,
                rank,
                EventRef.of(rank, kind, 0).group,
                pattern=arguments.get("name") or "",
                number=arguments.get("nth"),
            )
            if row is None
            else EventRef.of(rank, kind, row)
        )
        found = inspect_event(view, event).document()
    except (KeyError, IndexError) as error:
        raise GrammarError(str(error.args[0])) from None
    links = found.pop("links")
    columns = ("relation", "rank", "group", "row", "name", "start_ns", "dur_ns", "note")

    def cells(index: int) -> list[Any]:
        return [links[index][column] for column in columns]

    facts = [clipped(fact) for fact in found.pop("facts")]
    head = {**clipped(found), "facts": facts}
    return paged(head, columns, len(links), cells, cursor=arguments.get("cursor") or 0)


_PARTS: Final = ("steps", "ranks", "window")


def compare(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Return the document of ``ccltui diff --format json``: its head, and one of its lists."""
    section = arguments.get("section") or "waterfall"
    if section not in SECTIONS:
        raise GrammarError(f"no section {section[:80]!r}; there are {', '.join(SECTIONS)}")
    sides = (_side(jobs, arguments, "a"), _side(jobs, arguments, "b"))
    found = document(compare_jobs(*sides, runs_vary_pct=arguments.get("runs_vary_pct")))
    lists = {name: found.pop(name) for name in SECTIONS}
    rows = lists[section]
    columns = tuple(rows[0]) if rows else ()
    head = {**clipped(found), "section": section, "sections": {n: len(r) for n, r in lists.items()}}

    def cells(index: int) -> list[Any]:
        return [rows[index][column] for column in columns]

    return paged(head, columns, len(rows), cells, cursor=arguments.get("cursor") or 0)


def _side(jobs: OpenedJobs, arguments: Arguments, side: str) -> JobTable:
    path = arguments.get(side) or arguments["a"]
    texts = {name: arguments.get(f"{side}_{name}") for name in _PARTS}
    given = [f"{name}={text}" for name, text in texts.items() if text]
    if side == "b" and not arguments.get("b") and not given:
        raise GrammarError("state b, or the part of a that is compared: b_steps, b_ranks, b_window")
    view = jobs.view(path, {}, texts)
    return job_table(view, printable(" ".join([Path(path).name, *given])))
