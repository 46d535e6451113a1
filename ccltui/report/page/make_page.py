"""Make the report of a job, with the sections about its input and the meaning of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ccltui import __version__
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import merged_reasons
from ccltui.parsers.window import format_ranks, format_steps, format_window
from ccltui.report import explanation
from ccltui.report.json_document import TraceSummary
from ccltui.report.page.page_parts import (
    ABSENT,
    Block,
    Cell,
    Column,
    Line,
    Lines,
    Page,
    Section,
    Source,
    Table,
    listed_lines,
    why_absent,
)
from ccltui.report.page.sections import (
    board_section,
    dimension_section,
    distribution_section,
    heat_section,
    kernel_section,
    moment_section,
    step_section,
    verdict_section,
)

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.view_options import ViewOptions

_MATCH: Final = {
    "high": "matched with high confidence",
    "medium": "matched with medium confidence",
    "low": "matched with low confidence",
    "mismatched": "operations of the ranks differ",
    "incomplete": "not recorded on all ranks",
}


def trust_section(trace: TraceSummary, results: Mapping[str, Result]) -> Section:
    """Return what was read, what is missing, and how sure matches and clocks are."""
    purpose = "What was read, what is missing, and how sure matches and clocks are."
    blocks: list[Block] = [_files(trace)]
    if reason := why_absent(results, "straggler_lag"):
        blocks.append(Line(f"Matches: none shows who is late: {reason.rstrip('.')}."))
    else:
        blocks.append(_matches(results))
    if reason := why_absent(results, "clock_offsets"):
        blocks.append(Line(f"Clocks: not compared: {reason.rstrip('.')}."))
    else:
        blocks.append(_clocks(results))
    for title, texts in (
        ("Files that were not read", [f"{path}: {error}" for path, error in trace.failures]),
        ("Parts of the input that are missing", _partial(results)),
        ("Warnings", _warnings(results)),
    ):
        if texts:
            blocks.append(Lines(listed_lines(texts), title))
    return Section("trust", "Trust", purpose, blocks)


def _files(trace: TraceSummary) -> Table:
    expected = trace.expected_ranks
    world = "not stated" if expected is None else f"{expected:,}"
    missing = trace.missing_text or "none"
    rows: list[tuple[Cell, ...]] = [
        ("ranks that were read", f"{trace.ranks:,}"),
        ("ranks of the job", world),
        ("ranks not read" if trace.is_sample else "ranks without a file", missing),
        ("formats", ", ".join(trace.sources) or ABSENT),
        ("capture", trace.capture or ABSENT),
        ("files that were not read", f"{len(trace.failures):,}"),
        ("loading", "complete" if trace.complete else "stopped before the end"),
    ]
    columns = (Column("input", is_numeric=False), Column("value", is_numeric=False))
    return Table("Input", columns, rows)


def _matches(results: Mapping[str, Result]) -> Table:
    source = Source.of(results, "straggler_lag")
    rows = [(text, source.number("match", key)) for key, text in _MATCH.items()]
    columns = (Column("collectives", is_numeric=False), Column("number"))
    return Table("Collectives of all ranks", columns, rows, str(source.get("coverage") or ""))


def _clocks(results: Mapping[str, Result]) -> Table:
    source = Source.of(results, "clock_offsets")
    hosts: Sequence[str] = list(source.get("per_host") or {})
    rows: list[tuple[Cell, ...]] = [
        (
            host,
            source.number("per_host", host, "ranks"),
            source.number("per_host", host, "offset_us"),
            source.number("per_host", host, "spread_us"),
        )
        for host in hosts[:_MOST_HOSTS]
    ]
    columns = (
        Column("host", is_numeric=False),
        Column("ranks"),
        Column("offset", "us"),
        Column("spread over ranks", "us"),
    )
    bar = source.number("residual_p95_us").text
    note = f"Error bar of a clock, p95 of the residuals: {bar} us. Evidence: "
    note += f"{source.get('evidence') or 'none'}."
    if len(hosts) > _MOST_HOSTS:
        note += f" {_MOST_HOSTS} of {len(hosts)} hosts."
    return Table("Clocks by host", columns, rows, note)


_MOST_HOSTS: Final = 64


def _partial(results: Mapping[str, Result]) -> list[str]:
    """Return why results cover only a part, each reason once with the metrics concerned."""
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        if result.status == "partial":
            for _, message in merged_reasons(result.reasons):
                found.setdefault(message, []).append(name)
    return [f"{text} ({', '.join(names)})" for text, names in found.items()]


def _warnings(results: Mapping[str, Result]) -> list[str]:
    return list(dict.fromkeys(text for one in results.values() for text in one.warnings))


def definition_section(metrics: Iterable[Metric], results: Mapping[str, Result]) -> Section:
    """Return unit, definition, basis and source of every metric of the report."""
    rows: list[tuple[Cell, ...]] = []
    for metric in metrics:
        result = results[metric.name]
        source = Source.of(results, metric.name)
        reason = "; ".join(message for _, message in merged_reasons(result.reasons))
        value = source.number(metric.headline)
        rows.append(
            (
                metric.name,
                value,
                metric.unit,
                f"{metric.definition} {_basis(result)}".rstrip(),
                result.source or ABSENT,
                result.status + (f": {reason}" if reason else ""),
            )
        )
    columns = (
        Column("metric", is_numeric=False),
        Column("value"),
        Column("unit", is_numeric=False),
        Column("definition, with its denominator", is_numeric=False),
        Column("source", is_numeric=False),
        Column("status", is_numeric=False),
    )
    purpose = (
        "Every metric of this report: unit, definition, source, and the reason where it is missing."
    )
    return Section("definitions", "Definitions", purpose, [Table("Metrics", columns, rows)])


def _basis(result: Result) -> str:
    found = [f"{key}: {text}" for key, text in result.basis.items()]
    return f"Here: {'; '.join(found)}." if found else ""


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
