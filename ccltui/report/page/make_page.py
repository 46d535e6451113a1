"""Make the report of a job: its sections from results of metrics and tables of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ccltui import __version__
from ccltui.parsers.window import format_ranks, format_steps, format_window
from ccltui.report import explanation
from ccltui.report.json_document import TraceSummary
from ccltui.report.page.job_sections import (
    dimension_section,
    distribution_section,
    kernel_section,
    step_section,
    verdict_section,
)
from ccltui.report.page.page_parts import Page, Section, Source
from ccltui.report.page.rank_sections import board_section, heat_section, moment_section
from ccltui.report.page.trust_sections import definition_section, trust_section

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.view_options import ViewOptions

METRICS: Final = (
    *explanation.METRICS,
    "coll_call_num",
    "idle_causes",
    "parallelism",
    "kernels",
)
"""Metrics of a report, in the order in which they are computed."""


def make_page(trace: TraceSummary, view: View, measured: Sequence[tuple[Metric, Result]]) -> Page:
    """Return the report of a job.

    Args:
        trace: summary of the input.
        view: the job and the selection.
        measured: `METRICS` with their results.
    """
    results = {metric.name: result for metric, result in measured}
    explained = explanation.explain(trace, results)
    sections: tuple[Section, ...] = (
        verdict_section(explained),
        step_section(results),
        board_section(view, results),
        heat_section(view, results),
        moment_section(view, results),
        dimension_section(results),
        kernel_section(results),
        distribution_section(view, results),
        trust_section(trace, results),
        definition_section([metric for metric, _ in measured], results),
    )
    return Page(
        path=trace.path,
        headline=explained.headline,
        facts=_facts(trace, view.options, results),
        sections=sections,
        version=__version__,
    )


def _facts(
    trace: TraceSummary, options: ViewOptions, results: dict[str, Result]
) -> list[tuple[str, str]]:
    """Return what the report is of: the input and the selection."""
    ranks = (
        f"{trace.ranks:,}"
        if trace.world_size is None
        else f"{trace.ranks:,} of {trace.world_size:,}"
    )
    steps = Source.of(results, "step_composition").get("num_steps")
    steps = steps or Source.of(results, "iter_time").get("num_iterations") or "not marked"
    facts = [
        ("Ranks", ranks),
        ("Steps", str(steps)),
        ("Formats", ", ".join(trace.sources) or "none"),
    ]
    if trace.capture:
        facts.append(("Capture", trace.capture))
    if options.window is not None:
        facts.append(("Window", format_window(options.window)))
    if options.steps is not None:
        facts.append(("Selected steps", format_steps(options.steps)))
    if options.ranks is not None:
        facts.append(("Selected ranks", format_ranks(options.ranks)))
    if options.group is not None:
        facts.append(("Group", options.group))
    if options.span != "steps":
        facts.append(("Measured time", options.span))
    facts.append(("Clocks", "as recorded" if options.raw_clocks else "corrected"))
    facts += [(f"Set {name}", str(value)) for name, value in options.overrides.items()]
    return facts
