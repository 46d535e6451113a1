"""Answer of the comparison of two jobs, or of two parts of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ccltui.mcp_server.answer_pages import clipped, paged
from ccltui.mcp_server.comparison_sections import SECTIONS
from ccltui.mcp_server.job_answers import Arguments
from ccltui.mcp_server.opened_jobs import OpenedJobs
from ccltui.metrics.compare.compare_jobs import compare_jobs
from ccltui.metrics.compare.job_side import job_table
from ccltui.metrics.compare.job_table import JobTable
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.names import printable
from ccltui.report.job_diff.diff_document import document

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
