"""Questions about a job as a whole, and rows of answers up to a number of bytes.

A question is a struct: its docstring, fields and their descriptions are what the server tells an
agent of the tool, and `answer` is what the answering process calls. The jobs that were opened last
stay open.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from ccltui.api import Job
from ccltui.export.tables import TABLES
from ccltui.mcp_server.roots import Roots
from ccltui.metrics import registry
from ccltui.metrics.result import Result, unit_of
from ccltui.metrics.unavailable import merged_reasons
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.job import LoadSettings, ProfileMode, load_job, require_one_recording, start_job
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.window import parse_ranks, parse_steps, parse_window
from ccltui.report.explanation import BUDGET
from ccltui.report.json_document import TraceSummary
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import leaves

MAX_BYTES: Final = 16_384
"""Size of an answer. Some 5,000 tokens: several such answers fit beside a conversation."""
MAX_TEXT: Final = 400
"""Characters of one text; names of templated kernels have thousands."""
MAX_LISTED: Final = 16
"""Elements of a list in a row; the metric has the longer ones as rows of their own."""


def paged(
    head: dict[str, Any],
    columns: Sequence[str],
    count: int,
    row: Callable[[int], Sequence[Any]],
    *,
    cursor: int,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return ``head`` with rows from ``cursor`` on, as many as fit, at least one.

    Args:
        head: members before the rows.
        columns: names of the cells of a row.
        count: number of rows.
        row: cells of the row at an index.
        cursor: index of the first row.
        limit: largest number of rows.

    Returns:
        ``columns``, ``rows``, ``num_rows`` (of all pages) and ``next_cursor``, None at the end.

    Raises:
        GrammarError: the cursor is negative or beyond the rows.
    """
    if not 0 <= cursor <= count:
        raise GrammarError(f"cursor {cursor}: there are {count} rows")
    end = count if limit is None else min(count, cursor + max(1, limit))
    rows: list[list[Any]] = []
    size = len(json_bytes(head))
    while cursor < end:
        cells = [clipped(cell) for cell in row(cursor)]
        size += len(json_bytes(cells))
        if rows and size > MAX_BYTES:
            break
        rows.append(cells)
        cursor += 1
    return {
        **head,
        "columns": list(columns),
        "rows": rows,
        "num_rows": count,
        "next_cursor": cursor if cursor < count else None,
    }


def clipped(value: Any) -> Any:
    """Return a value whose texts and lists are cut, with how much is left out."""
    if isinstance(value, str):
        more = len(value) - MAX_TEXT
        return value if more <= 0 else f"{value[:MAX_TEXT]}… ({more} more characters)"
    if isinstance(value, dict):
        return {key: clipped(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return clipped_list([clipped(item) for item in value])
    return value


def clipped_list(items: Sequence[Any]) -> list[Any]:
    """Return the first items; where there are more, the last states how many."""
    more = len(items) - MAX_LISTED
    return list(items) if more <= 0 else [*items[:MAX_LISTED], f"… {more} more"]


KEPT: Final = 4
"""Jobs kept open: a comparison needs two, and what follows it goes back to either."""


_Key = tuple[str, str | None, ProfileMode]


class OpenedJobs:
    """Views of whole jobs by path, capture and profiler."""

    def __init__(self, roots: Roots, cache_dir: Path | None) -> None:
        self._roots = roots
        self._cache_dir = cache_dir
        self._views: OrderedDict[_Key, View] = OrderedDict()

    def view(self, source: Source) -> View:
        """Return the view of a job, which is opened where it is not yet, under a selection.

        Raises:
            TraceError: the path is refused, or holds nothing to open.
            GrammarError: a text of the selection does not follow its grammar.
        """
        options = source.view_options()
        key = self._key(source)
        view = self._views.get(key)
        if view is None:
            view = self._opened(key)
        self._views[key] = view
        self._views.move_to_end(key)
        while len(self._views) > KEPT:
            self._views.popitem(last=False)
        return view.with_options(**options) if options else view

    def forget(self, source: Source) -> None:
        """Close a job, so that it is read again: its files may have grown."""
        self._views.pop(self._key(source), None)

    def _key(self, source: Source) -> _Key:
        return self._roots.resolved(source.path), source.capture, source.profile_mode

    def _opened(self, key: _Key) -> View:
        path, capture, mode = key
        store = default_cache_dir() if self._cache_dir is None else self._cache_dir
        job = start_job(path, capture=capture, profile_mode=mode, store=store)
        if capture is None:
            require_one_recording(job, path)
        settings = LoadSettings(self._cache_dir, inline=True, for_other_processes=False)
        return View(load_job(job, settings), ViewOptions(profile_mode=mode))


PathOf = Annotated[str, Meta(description="trace directory or file, below a directory of --root")]
Steps = Annotated[str | None, Meta(description="only these steps: I-J, both included")]
Ranks = Annotated[str | None, Meta(description="only these ranks: 0-7,16")]
Window = Annotated[
    str | None, Meta(description="only this time since the earliest event: 4s420ms/5s; A/ or /B")
]
Cursor = Annotated[int, Meta(ge=0, description="next_cursor of the answer before; 0 is the start")]


class Question(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A question of an agent, which is a tool by the name of its class."""

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return the document that answers it."""
        raise NotImplementedError


class Source(Question, kw_only=True, frozen=True):
    """A question about a job."""

    path: PathOf
    capture: Annotated[
        str | None, Meta(description="name of the capture, where there are several")
    ] = None
    profile_mode: Annotated[ProfileMode, Meta(description="traces to use: torch is Kineto")] = (
        "auto"
    )

    def view_options(self) -> dict[str, Any]:
        """Return the fields of `ViewOptions` that texts of an agent set: none of a whole job."""
        return {}


class Part(Source, kw_only=True, frozen=True):
    """A question about a job, or a part of it."""

    steps: Steps = None
    ranks: Ranks = None
    window: Window = None
    group: Annotated[
        str | None, Meta(description="only collectives of this group or dimension")
    ] = None

    _grammars: ClassVar[Mapping[str, Callable[[str], object]]] = {
        "steps": parse_steps,
        "ranks": parse_ranks,
        "window": parse_window,
        "group": str,
    }

    def view_options(self) -> dict[str, Any]:
        """Return the fields of `ViewOptions` that are given, parsed as those of the commands.

        Raises:
            GrammarError: a text does not follow the grammar that the commands have.
        """
        given = {name: getattr(self, name) for name in self._grammars}
        return {name: self._grammars[name](text) for name, text in given.items() if text}


class Open(Source, kw_only=True, frozen=True):
    """Read a directory: ranks, captures, steps, groups, files that failed, metrics, tables."""

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Read the directory again, and describe what it holds."""
        jobs.forget(self)
        view = jobs.view(self)
        trace = TraceSummary.of(view.job).to_dict()
        failures = trace["failures"]
        steps = sorted({step.id for rank in view.ranks for step in rank.steps})
        described: dict[str, Any] = clipped(
            {
                **{name: value for name, value in trace.items() if name != "failures"},
                "captures": [capture.name for capture in view.job.discovery.captures],
                "num_failures": len(failures),
                "failures": [f"{failure['path']}: {failure['error']}" for failure in failures],
                "steps": {"first": steps[0], "last": steps[-1], "count": len(steps)}
                if steps
                else None,
                "ranks_read": [rank.label for rank in view.ranks],
                "groups": [
                    {"name": group.label, "dim": group.dim, "size": group.size}
                    for group in view.groups
                ],
                "tables": {name: list(table.columns) for name, table in TABLES.items()},
            }
        )
        return described | {"metrics": " ".join(registry.metrics())}


class Explain(Part, kw_only=True, frozen=True):
    """Explain what slows the job down: verdict, claims with sources, what to do and record."""

    budget: Annotated[
        Annotated[int, Meta(ge=1024, le=65_536)] | None,
        Meta(description=f"largest size in bytes; default {BUDGET}"),
    ] = None

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return the document of ``ccltui explain --format json``."""
        job = Job(jobs.view(self), self.capture)
        document: dict[str, Any] = json.loads(job.explain(budget=self.budget or BUDGET).to_json())
        return document


class Metric(Part, kw_only=True, frozen=True):
    """Compute one metric: value, unit, definition, status, reasons; its details as rows."""

    name: Annotated[str, Meta(description="name of the metric; open lists them")]
    key: Annotated[
        str | None, Meta(description="only this key and those below it: wait_us, by_dim.tp")
    ] = None
    cursor: Cursor = 0

    def answer(self, jobs: OpenedJobs) -> dict[str, Any]:
        """Return the headline, and the numbers below one key or all keys as rows."""
        try:
            metric = registry.find(self.name)
        except KeyError as error:
            raise GrammarError(str(error)) from None
        result = metric.run(jobs.view(self))
        key = self.key or ""
        numbers = [
            (name, value)
            for name, value in leaves(result.details.items(), longest=MAX_LISTED)
            if not key or name == key or name.startswith(f"{key}.")
        ]
        if key and not numbers:
            raise GrammarError(f"{result.metric} has no key {key[:80]!r}")

        def row(index: int) -> tuple[Any, ...]:
            name, value = numbers[index]
            return name, value, result.unit if name == metric.headline else unit_of(name)

        head = {**result_head(result), "headline": metric.headline}
        return paged(head, ("key", "value", "unit"), len(numbers), row, cursor=self.cursor)


def result_head(result: Result) -> dict[str, Any]:
    """Return the members of a result but its details, reasons of several ranks as one."""
    return {
        "metric": result.metric,
        "status": result.status,
        "value": result.value,
        "unit": result.unit,
        "definition": result.definition,
        "reasons": clipped_list(
            [clipped(f"{code}: {text}") for code, text in merged_reasons(result.reasons)]
        ),
        "warnings": clipped(list(result.warnings)),
    }
