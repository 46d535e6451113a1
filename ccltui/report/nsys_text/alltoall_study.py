"""Measure all-to-all delays per node from texts of ``nsys stats`` or exports in a folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ccltui.metrics.nsys_reports import Report, make_report
from ccltui.metrics.nsys_reports.alltoall_delays import (
    Study,
    exchanges_of_section,
    exchanges_of_tables,
    is_exchange,
    study,
    total_of,
)
from ccltui.metrics.nsys_reports.from_text import report_of_section
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.nsys.report_reader import read_report_tables
from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text
from ccltui.parsers.nsys.text_reports.typed_table import Provenance, Section
from ccltui.parsers.window import format_window

_ROLE = re.compile(r"[_.-](?:cuda_gpu_)?(?:trace|(?:filtered_)?sum)$")


class NodeStudy(Struct, frozen=True):
    """Exchanges of one node, and its summary of device time.

    Attributes:
        source: File of the trace.
        made_by: Program and filters that wrote the file, for people.
        study: Delays of the exchanges.
        summary: Device time by operation; None where there is no such report.
        summary_source: File of the summary.
        agrees: Whether time and count of the kernels in the trace add up to those in the
            summary; None where the summary does not list them.
    """

    source: str
    made_by: str
    study: Study
    summary: Report | None = None
    summary_source: str = ""
    agrees: bool | None = None


class Studies(Struct, frozen=True):
    """Studies in the order of their files, and problems of files that could not be used."""

    nodes: tuple[NodeStudy, ...]
    problems: tuple[str, ...] = ()


class _Text(Struct, frozen=True):
    """One table of a text file."""

    path: str
    section: Section


def studies_of(path: str | Path, *, largest_bytes: int = sys.maxsize) -> Studies:
    """Study every trace with all-to-all kernels below ``path``.

    Summaries are assigned to traces by their banners (same database, same window), else by their
    file names.

    Args:
        path: Folder or file.
        largest_bytes: Larger exports are listed as problems and not read, because the explorer
            cannot wait for them.

    Raises:
        TraceError: ``path`` cannot be opened.
    """
    discovery = discover(path)
    problems: list[str] = []
    texts: list[_Text] = []
    nodes: list[NodeStudy] = []
    for found in discovery.files:
        try:
            with contained(found.path):
                is_export = found.format.reports == "rows" and found.format.to_sqlite is None
                if found.format.reports == "text":
                    texts += _tables_of(found)
                elif is_export and found.size_bytes > largest_bytes:
                    problems.append(
                        f"{found.path}: a large export: ccltui stats --alltoall reads it"
                    )
                elif is_export:
                    nodes += _of_export(found)
        except TraceError as error:
            problems.append(str(error))
    for text in texts:
        if text.section.report == "cuda_gpu_trace":
            try:
                with contained(None):
                    nodes += _of_text(text, texts)
            except TraceError as error:
                problems.append(f"{text.path}: {error}")
    nodes.sort(key=lambda node: node.source)
    return Studies(tuple(nodes), tuple(problems))


def _tables_of(found: FoundFile) -> Iterator[_Text]:
    for section in read_stats_text(Path(found.real_path), shown=found.path).tables:
        if section.report in ("cuda_gpu_trace", "cuda_gpu_sum"):
            yield _Text(found.path, section)


def _of_export(found: FoundFile) -> Iterator[NodeStudy]:
    tables = read_report_tables(
        Path(found.real_path), shown=found.path, parts=frozenset({"kernels", "memory", "places"})
    )
    exchanges = exchanges_of_tables(tables)
    if len(exchanges):
        summary = make_report("cuda_gpu_sum", tables)
        yield NodeStudy(found.path, "an nsys export", study(exchanges), summary, found.path)


def _of_text(trace: _Text, texts: list[_Text]) -> Iterator[NodeStudy]:
    exchanges = exchanges_of_section(trace.section)
    if not len(exchanges):
        return
    found = study(exchanges)
    made_by = _made_by(trace.section.provenance)
    match = next((text for text in texts if _belong(trace, text)), None)
    if match is None:
        yield NodeStudy(trace.path, made_by, found)
        return
    summary = report_of_section(match.section)
    agrees = _agrees(trace.section, summary)
    yield NodeStudy(trace.path, made_by, found, summary, match.path, agrees)


def _belong(trace: _Text, other: _Text) -> bool:
    if other.section.report != "cuda_gpu_sum":
        return False
    first, second = trace.section.provenance, other.section.provenance
    if first.database and second.database and first.window != second.window:
        return False
    same_place = trace.path.rpartition("/")[0] == other.path.rpartition("/")[0]
    if _base(trace.path) == _base(other.path):
        return True
    return bool(same_place and first.database) and first.database == second.database


def _base(path: str) -> str:
    """File name without role: ``multi_8x4_trace.txt`` and ``multi_8x4_sum.txt`` give one base."""
    return _ROLE.sub("", path.rpartition(".")[0].lower() or path.lower())


def _agrees(trace: Section, summary: Report) -> bool | None:
    """Whether sums of the exchange kernels equal the summary; None where it does not list them."""
    names = trace.text("Name").values
    durations = trace.number("Duration").ns()
    sums: dict[str, tuple[int, int]] = {}
    for name, duration in zip(names, durations.tolist(), strict=True):
        if not is_exchange(name):
            continue
        total, count = sums.get(name, (0, 0))
        sums[name] = (total + duration, count + 1)
    pairs = [(pair, total_of(summary, name)) for name, pair in sums.items()]
    stated = [(own, other) for own, other in pairs if other is not None]
    return all(own == other for own, other in stated) if stated else None


def _made_by(provenance: Provenance) -> str:
    parts = ["nsys stats"]
    if provenance.nsys_version:
        parts[0] = f"nsys {provenance.nsys_version}"
    if provenance.window is not None:
        parts.append(f"window {format_window(provenance.window)}")
    if provenance.command:
        parts.append(f"filtered by {provenance.command}")
    return ", ".join(parts)
