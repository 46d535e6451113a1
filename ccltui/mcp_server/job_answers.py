"""Answers about a job as a whole: what was opened, the explanation, and metrics.

The jobs that were opened last stay open.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from ccltui.api import Job
from ccltui.export.table_columns import TABLES
from ccltui.mcp_server.answer_pages import MAX_LISTED, clipped, clipped_list, paged
from ccltui.mcp_server.roots import Roots
from ccltui.metrics import registry
from ccltui.metrics.result import Result, unit_of
from ccltui.metrics.unavailable import merged_reasons
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.job import (
    LoadSettings,
    ProfileMode,
    load_job,
    require_one_recording,
    start_job,
)
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.window import parse_ranks, parse_steps, parse_window
from ccltui.report.explanation import BUDGET
from ccltui.report.json_document import TraceSummary
from ccltui.report.result_rows import leaves

KEPT: Final = 4
"""Jobs kept open: a comparison needs two, and what follows it goes back to either."""


class OpenedJobs:
    """Views of whole jobs by path, capture and profiler."""

    def __init__(self, roots: Roots, cache_dir: Path | None) -> None:
        self._roots = roots
        self._cache_dir = cache_dir
        self._views: OrderedDict[tuple[str, str | None, str], View] = OrderedDict()

    def view(
        self, path: str, source: Mapping[str, Any], selection: Mapping[str, Any] | None = None
    ) -> View:
        """Return the view of a job, which is opened where it is not yet.

        Args:
            path: the directory or file, as the agent wrote it.
            source: ``capture`` and ``profile_mode``; what is absent is the default.
            selection: texts of ``steps``, ``ranks``, ``window`` and ``group``.

        Raises:
            TraceError: the path is refused, or holds nothing to open.
            GrammarError: a text of the selection does not follow its grammar.
        """
        options = view_options(selection or {})
        key = self._key(path, source)
        view = self._views.get(key)
        if view is None:
            view = self._opened(key)
        self._views[key] = view
        self._views.move_to_end(key)
        while len(self._views) > KEPT:
            self._views.popitem(last=False)
        return view.with_options(**options) if options else view

    def forget(self, path: str, source: Mapping[str, Any]) -> None:
        """Close a job, so that it is read again: its files may have grown."""
        self._views.pop(self._key(path, source), None)

    def _key(self, path: str, source: Mapping[str, Any]) -> tuple[str, str | None, str]:
        mode = source.get("profile_mode") or "auto"
        if mode not in get_args(ProfileMode):
            raise GrammarError(f"profile_mode is one of {', '.join(get_args(ProfileMode))}")
        return self._roots.resolved(path), source.get("capture"), mode

    def _opened(self, key: tuple[str, str | None, str]) -> View:
        path, capture, mode = key
        modes: dict[str, ProfileMode] = {name: name for name in get_args(ProfileMode)}
        store = default_cache_dir() if self._cache_dir is None else self._cache_dir
        job = start_job(path, capture=capture, profile_mode=modes[mode], store=store)
        if capture is None:
            require_one_recording(job, path)
        settings = LoadSettings(self._cache_dir, inline=True, for_other_processes=False)
        return View(load_job(job, settings), ViewOptions(profile_mode=modes[mode]))


def view_options(selection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `ViewOptions` that texts of an agent set.

    Raises:
        GrammarError: a text does not follow the grammar that the commands have.
    """
    parse: dict[str, Callable[[str], object]] = {
        "steps": parse_steps,
        "ranks": parse_ranks,
        "window": parse_window,
        "group": str,
    }
    return {name: parse[name](text) for name, text in selection.items() if text}


Arguments = Mapping[str, Any]

MIN_BUDGET: Final = 1024
MAX_BUDGET: Final = 65_536


def open_job(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Read a directory again, and describe what it holds."""
    jobs.forget(arguments["path"], arguments)
    view = jobs.view(arguments["path"], arguments)
    trace = TraceSummary.of(view.job).to_dict()
    failures = trace.pop("failures")
    steps = sorted({step.id for rank in view.ranks for step in rank.steps})
    found: dict[str, Any] = clipped(
        {
            **trace,
            "captures": [one.name for one in view.job.discovery.captures],
            "num_failures": len(failures),
            "failures": [f"{one['path']}: {one['error']}" for one in failures],
            "steps": {"first": steps[0], "last": steps[-1], "count": len(steps)} if steps else None,
            "ranks_read": [rank.label for rank in view.ranks],
            "groups": [
                {"name": group.label, "dim": group.dim, "size": group.size} for group in view.groups
            ],
            "tables": {name: list(table.columns) for name, table in TABLES.items()},
        }
    )
    return found | {"metrics": " ".join(registry.metrics())}


def explain(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Return the document of ``ccltui explain --format json``."""
    budget = arguments.get("budget") or BUDGET
    if not MIN_BUDGET <= budget <= MAX_BUDGET:
        raise GrammarError(f"budget {budget}: from {MIN_BUDGET} to {MAX_BUDGET} bytes")
    view = jobs.view(arguments["path"], arguments, selection_of(arguments))
    job = Job(view, arguments.get("capture"))
    found: dict[str, Any] = json.loads(job.explain(budget=budget).to_json())
    return found


def metric(jobs: OpenedJobs, arguments: Arguments) -> dict[str, Any]:
    """Return one metric: the headline, and the numbers below one key or all keys as rows."""
    try:
        found = registry.find(arguments["name"])
    except KeyError as error:
        raise GrammarError(str(error)) from None
    result = found.run(jobs.view(arguments["path"], arguments, selection_of(arguments)))
    key = arguments.get("key") or ""
    numbers = [
        (name, value)
        for name, value in leaves(result.details.items(), longest=MAX_LISTED)
        if not key or name == key or name.startswith(f"{key}.")
    ]
    if key and not numbers:
        raise GrammarError(f"{result.metric} has no key {key[:80]!r}")

    def row(index: int) -> tuple[Any, ...]:
        name, value = numbers[index]
        return name, value, result.unit if name == found.headline else unit_of(name)

    return paged(
        {**result_head(result), "headline": found.headline},
        ("key", "value", "unit"),
        len(numbers),
        row,
        cursor=arguments.get("cursor") or 0,
    )


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


def selection_of(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments that restrict the numbers."""
    return {name: arguments.get(name) for name in ("steps", "ranks", "window", "group")}
