"""Answers about a job as a whole: what was opened, the explanation, and metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ccltui.api import Job
from ccltui.export.table_columns import TABLES
from ccltui.mcp_server.answer_pages import MAX_LISTED, clipped, clipped_list, paged
from ccltui.mcp_server.opened_jobs import OpenedJobs
from ccltui.metrics import registry
from ccltui.metrics.key_units import unit_of
from ccltui.metrics.reason_text import merged_reasons
from ccltui.metrics.result import Result
from ccltui.parsers.errors import GrammarError
from ccltui.report.explanation import BUDGET
from ccltui.report.json_document import TraceSummary
from ccltui.report.result_rows import leaves

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
