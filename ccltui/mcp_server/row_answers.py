"""Questions answered in rows: tables, collectives, one event, a window, two jobs compared."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import numpy as np
from msgspec import Meta

from ccltui.export.tables import SIGNED, TABLES, Column, Text, events_of_rank
from ccltui.export.tables import Part as Rows
from ccltui.mcp_server.job_answers import (
    Cursor,
    Explain,
    Metric,
    Open,
    OpenedJobs,
    Part,
    PathOf,
    Question,
    Ranks,
    Steps,
    Window,
    clipped,
    paged,
    result_head,
)
from ccltui.metrics import registry
from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.compare.compare_jobs import compare_jobs
from ccltui.metrics.compare.job_side import JobTable, job_table
from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.inspection.event_facts import EventRef
from ccltui.metrics.inspection.event_report import find_event, inspect_event
from ccltui.metrics.view.collective_selection import describe_group
from ccltui.metrics.view.instances import GroupCalls, matched_calls
from ccltui.metrics.view.job_view import View
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import printable
from ccltui.report.job_diff import document

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


_MEMBER_COLUMNS: Final = (
    "rank",
    "host",
    "late_ns",
    "start_late_ns",
    "wait_ns",
    "dur_ns",
    "doing",
    "doing_ns",
)


class Table(Part, kw_only=True, frozen=True):
    """Return rows of a table: times in ns since the origin of the job, null: not recorded."""

    table: Annotated[
        Literal["events", "collectives", "steps", "metrics"],
        Meta(description="events are all of all ranks: filter and sort them"),
    ]
    columns: Annotated[
        list[str] | None, Meta(description="columns of the answer; open lists them")
    ] = None
    where: Annotated[
        dict[str, str] | None,
        Meta(description="by column: a text or *pattern*; numbers N, A..B, A.. or ..B"),
    ] = None
    sort: Annotated[
        str | None, Meta(description="column of numbers; -dur_ns is the largest first")
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="largest number of rows")
    ] = None
    cursor: Cursor = 0

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return rows of a table of ``ccltui export``, filtered and sorted."""
        return _rows(
            self.table,
            TABLES[self.table].parts(jobs.view(self)),
            self.columns or tuple(TABLES[self.table].columns),
            where=self.where or {},
            sort=self.sort or "",
            cursor=self.cursor,
            limit=self.limit,
        )


class PartOfTime(Part, kw_only=True, frozen=True):
    """Describe a part of the time: metrics of it, and the longest device work as rows."""

    cursor: Cursor = 0

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return metrics of the window or the steps, and the longest device work as rows."""
        if not (self.window or self.steps):
            raise GrammarError("state the window (1s/2s) or the steps (3-5)")
        view = jobs.view(self)
        results = [registry.find(name).run(view) for name in WINDOW_METRICS]
        parts = (part for rank in view.ranks for part in events_of_rank(view, rank, ["gpu"]))
        head = {"metrics": [result_head(result) for result in results], "rows_are": "device work"}
        rows = _rows("events", parts, _EVENT_COLUMNS, sort="-dur_ns", cursor=self.cursor)
        return {**head, **rows}


def _rows(
    name: str,
    parts: Iterator[Rows],
    columns: Sequence[str],
    *,
    where: Mapping[str, str] | None = None,
    sort: str = "",
    cursor: int = 0,
    limit: int | None = None,
) -> dict[str, Any]:
    known, where = TABLES[name].columns, where or {}
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

    return paged({"table": name}, columns, int(first[-1]), row, cursor=cursor, limit=limit)


def _mask(part: Rows, where: Mapping[str, str]) -> Column:
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
    taken: Sequence[tuple[Rows, Column]], sort: str, known: Mapping[str, tuple[str, str]]
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


class Collective(Part, kw_only=True, frozen=True):
    """List collectives by lag; or describe one: arrival and wait of each rank, cause, chain."""

    communicator: Annotated[
        str | None, Meta(description="name of the group, as this tool lists it")
    ] = None
    instance: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="number in the communicator; none lists by lag"),
    ] = None
    cursor: Cursor = 0

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return the collectives with the longest lag first; or one of them with its ranks."""
        view = jobs.view(self)
        if self.instance is not None:
            return _one_collective(view, self.communicator, self.instance, self.cursor)
        groups = [
            group
            for group in matched_calls(view)
            if self.communicator in (None, group.communicator)
        ]
        first = [np.unique(group.instance, return_index=True)[1] for group in groups]
        number = np.repeat(np.arange(len(groups)), [len(rows) for rows in first])
        rows = np.concatenate([np.empty(0, np.int64), *first])
        lag = np.concatenate(
            [np.empty(0), *(group.lag_ns[at] for group, at in zip(groups, first, strict=True))]
        )
        order = np.argsort(-lag, kind="stable")

        def row(index: int) -> tuple[Any, ...]:
            at = order[index]
            return _collective_row(groups[number[at]], int(rows[at]))

        head = {"sorted_by": "lag_ns, longest first"}
        return paged(head, _COLLECTIVE_COLUMNS, len(rows), row, cursor=self.cursor)


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

    def cells(index: int) -> list[Any]:
        member = members[index]
        return [member.label, *(getattr(member, name) for name in _MEMBER_COLUMNS[1:])]

    head = {**clipped(facts), "absent": clipped(list(found.absent))}
    return paged(head, _MEMBER_COLUMNS, len(members), cells, cursor=cursor)


class Kernel(Part, kw_only=True, frozen=True):
    """Describe one event: launch, delay, grid, shapes, stack; related events as rows."""

    rank: Annotated[str | None, Meta(description="label of the rank; the first")] = None
    name: Annotated[str | None, Meta(description="regular expression that its name contains")] = (
        None
    )
    kind: Annotated[
        Literal["gpu", "runtime", "cpu_ops", "annotations", "python"],
        Meta(description="gpu is device work"),
    ] = "gpu"
    nth: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="place in order of time; none is the longest"),
    ] = None
    row: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="row of its kind, as rows of this tool state it"),
    ] = None
    cursor: Cursor = 0

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return all that is recorded of one event, and the events related to it as rows."""
        view = jobs.view(self)
        rank = self.rank or next(iter(view.facts.ranks), "")
        try:
            event = (
                find_event(view, rank, self.kind, pattern=self.name or "", number=self.nth)
                if self.row is None
                else EventRef.of(rank, self.kind, self.row)
            )
            found = inspect_event(view, event).document()
        except (KeyError, IndexError) as error:
            raise GrammarError(str(error.args[0])) from None
        links = found.pop("links")
        facts = [clipped(fact) for fact in found.pop("facts")]
        return _dict_rows({**clipped(found), "facts": facts}, _LINK_COLUMNS, links, self.cursor)


def _dict_rows(
    head: dict[str, Any], columns: Sequence[str], rows: Sequence[dict[str, Any]], cursor: int
) -> dict[str, Any]:
    """Return ``head`` with cells of rows that are documents, by the names of their members."""

    def cells(index: int) -> list[Any]:
        return [rows[index][column] for column in columns]

    return paged(head, columns, len(rows), cells, cursor=cursor)


_LINK_COLUMNS: Final = ("relation", "rank", "group", "row", "name", "start_ns", "dur_ns", "note")
Section = Literal[
    "kinds", "waterfall", "dimensions", "kernels", "operators", "collectives", "stragglers"
]
"""Lists of a comparison that are rows of an answer, one list a call."""


class Compare(Question, kw_only=True, frozen=True):
    """Compare two jobs, or parts: verdict, whether they are comparable, and what changed."""

    a: PathOf
    b: Annotated[str | None, Meta(description="second directory; none: parts of a")] = None
    section: Annotated[Section, Meta(description="list of the comparison that the rows are of")] = (
        "waterfall"
    )
    a_steps: Steps = None
    a_ranks: Ranks = None
    a_window: Window = None
    b_steps: Steps = None
    b_ranks: Ranks = None
    b_window: Window = None
    runs_vary_pct: Annotated[
        Annotated[float, Meta(ge=0, le=1e6)] | None,
        Meta(
            description="by how many percent two runs of one command differ; without it two "
            "single runs are not distinguishable from noise between runs"
        ),
    ] = None
    cursor: Cursor = 0

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return the document of ``ccltui diff --format json``: its head, and one of its lists."""
        a = Part(path=self.a, steps=self.a_steps, ranks=self.a_ranks, window=self.a_window)
        b = Part(
            path=self.b or self.a, steps=self.b_steps, ranks=self.b_ranks, window=self.b_window
        )
        if self.b is None and not b.view_options():
            raise GrammarError(
                "state b, or the part of a that is compared: b_steps, b_ranks, b_window"
            )
        sides = (_side(jobs, a), _side(jobs, b))
        found = dict[str, Any](document(compare_jobs(*sides, runs_vary_pct=self.runs_vary_pct)))
        lists = {name: found.pop(name) for name in get_args(Section)}
        rows = lists[self.section]
        sizes = {name: len(rows) for name, rows in lists.items()}
        head = {**clipped(found), "section": self.section, "sections": sizes}
        return _dict_rows(head, tuple(rows[0]) if rows else (), rows, self.cursor)


def _side(jobs: OpenedJobs, part: Part) -> JobTable:
    texts = {"steps": part.steps, "ranks": part.ranks, "window": part.window}
    given = [f"{name}={text}" for name, text in texts.items() if text]
    return job_table(jobs.view(part), printable(" ".join([Path(part.path).name, *given])))


QUESTIONS: Final[Mapping[str, type[Question]]] = {
    "open": Open,
    "explain": Explain,
    "metric": Metric,
    "table": Table,
    "collective": Collective,
    "kernel": Kernel,
    "compare": Compare,
    "window": PartOfTime,
}
"""The question that each tool asks, by the name of the tool."""
