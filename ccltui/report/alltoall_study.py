"""Measure all-to-all delays per node from files of nsys, and write them with all reports.

Formats: text, csv, json and svg.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal
from xml.sax.saxutils import escape

import numpy as np
from msgspec import Struct

from ccltui.draw.planes import HEIGHTS
from ccltui.draw.text import clean
from ccltui.metrics.nsys_reports.alltoall_delays import (
    Share,
    Study,
    exchanges_in,
    exchanges_of_section,
    exchanges_of_tables,
    is_exchange,
    kind_shares,
    operation_shares,
    study,
    total_of,
)
from ccltui.metrics.nsys_reports.make_report import make_report
from ccltui.metrics.nsys_reports.report import Report, report_of_section
from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.nsys import NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.nsys.report_tables import read_report_tables
from ccltui.parsers.nsys.stats_text import read_stats_text
from ccltui.parsers.nsys.typed_table import Provenance, Section
from ccltui.parsers.numbers import counted, duration
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.window import Window, format_window
from ccltui.report.json_document import SCHEMA_VERSION
from ccltui.report.nsys_writers import Units, cells, header, is_text
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import csv_text
from ccltui.report.text_layout import Align, table, text_bytes

_AXIS: Final = 6  # columns left of the picture: "100 % "
_SVG_WIDTH, _SVG_HEIGHT, _SVG_LEFT, _SVG_BOTTOM, _SVG_TOP = 640, 360, 56, 44, 32
_INKS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def share_up_to(values_ns: I64, at_ns: F64) -> F64:
    """Share of the values that are at most each of ``at_ns``, from 0 to 1."""
    ordered = np.sort(values_ns)
    counts: F64 = np.searchsorted(ordered, at_ns, "right") / max(len(ordered), 1)
    return counts


def ecdf_lines(values_ns: I64, *, width: int = 72, height: int = 8) -> list[str]:
    """The curve as filled cells, time on a logarithmic axis, and a line of its ends.

    Each column shows the share of values up to its right edge, in eighths of a cell.
    """
    if not len(values_ns):
        return []
    columns = max(width - _AXIS, 8)
    edges = _edges(values_ns, columns)
    eighths = np.rint(share_up_to(values_ns, edges[1:]) * height * 8).astype(np.int64)
    lines = []
    for row in range(height - 1, -1, -1):
        cells = HEIGHTS[np.clip(eighths - row * 8, 0, 8)].tobytes().decode("utf-32-le")
        lines.append(f"{_percent(row, height):>{_AXIS - 1}} {cells}".rstrip())
    low, middle, high = (duration(round(edges[i])) for i in (0, columns // 2, columns))
    axis = low + middle.rjust(columns // 2 - len(low) + len(middle) // 2)
    return [*lines, " " * _AXIS + axis + high.rjust(columns - len(axis))]


def ecdf_svg(curves: Mapping[str, I64], *, title: str, marks_ns: Sequence[int] = ()) -> str:
    """SVG of step curves, one per name, time on a logarithmic axis; marks are vertical lines."""
    known = {name: values for name, values in curves.items() if len(values)}
    both = np.concatenate([*known.values(), np.empty(0, np.int64)]).astype(np.int64)
    parts = [_svg_frame(title)]
    if len(both):
        edges = _edges(both, 4)
        parts += [_svg_tick(value, edges) for value in edges]
        parts += [_svg_mark(value, edges) for value in marks_ns]
        for index, (name, values) in enumerate(known.items()):
            ink = _INKS[index % len(_INKS)]
            parts += [_svg_curve(values, edges, ink), _svg_legend(name, index, ink)]
    return "\n".join([*parts, "</svg>\n"])


def _edges(values_ns: I64, columns: int) -> F64:
    """Borders of columns, even on a logarithmic axis, from the smallest to the largest."""
    low, high = max(int(values_ns.min()), 1), max(int(values_ns.max()), 2)
    if np.log(high) <= np.log(low):  # also for nearly equal times near 2**53
        low = max(low // 2, 1)
    edges = np.exp(np.linspace(np.log(low), np.log(high), columns + 1))
    edges[-1] = high  # exact, so that the largest value is inside
    return edges


def _percent(row: int, height: int) -> str:
    if row == height - 1:
        return "100 %"
    if row == (height - 1) // 2:
        return f"{100 * (row + 1) // height} %"
    return "0 %" if row == 0 else ""


def _x(value_ns: float, edges: F64) -> float:
    low, high = np.log(edges[0]), np.log(edges[-1])
    share = (np.log(max(value_ns, float(edges[0]))) - low) / (high - low)
    return float(_SVG_LEFT + min(share, 1.0) * (_SVG_WIDTH - _SVG_LEFT - 16))


def _y(share: float) -> float:
    return _SVG_HEIGHT - _SVG_BOTTOM - share * (_SVG_HEIGHT - _SVG_BOTTOM - _SVG_TOP)


def _svg_frame(title: str) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SVG_WIDTH} {_SVG_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_SVG_WIDTH}" height="{_SVG_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_SVG_LEFT}" y="20" font-size="14">{escape(clean(title))}</text>',
    ]
    for percent in (0, 25, 50, 75, 100):
        y = _y(percent / 100)
        lines.append(
            f'<path d="M{_SVG_LEFT} {y:.1f}H{_SVG_WIDTH - 16}" stroke="#dddddd"/>'
            f'<text x="{_SVG_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'
        )
    return "\n".join(lines)


def _svg_tick(value_ns: float, edges: F64) -> str:
    x, y = _x(value_ns, edges), _SVG_HEIGHT - _SVG_BOTTOM + 18
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{duration(round(value_ns))}</text>'


def _svg_mark(value_ns: int, edges: F64) -> str:
    x = _x(value_ns, edges)
    return f'<path d="M{x:.1f} {_y(0):.1f}V{_y(1):.1f}" stroke="#888888" stroke-dasharray="4 3"/>'


def _svg_curve(values_ns: I64, edges: F64, ink: str) -> str:
    found, counts = np.unique(values_ns, return_counts=True)
    shares = np.cumsum(counts) / len(values_ns)
    path = [f"M{_x(float(found[0]), edges):.1f} {_y(0):.1f}"]
    for value, share in zip(found.tolist(), shares.tolist(), strict=True):
        path.append(f"H{_x(value, edges):.1f}V{_y(share):.1f}")
    return f'<path d="{"".join(path)}" fill="none" stroke="{ink}" stroke-width="1.5"/>'


def _svg_legend(name: str, index: int, ink: str) -> str:
    y = _y(0) - 12 - 18 * index
    return (
        f'<text x="{_SVG_WIDTH - 24}" y="{y:.1f}" text-anchor="end" fill="{ink}">'
        f"{escape(clean(name))}</text>"
    )


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


def studies_of(
    path: str | Path, *, window: Window | None = None, largest_bytes: int = sys.maxsize
) -> Studies:
    """Study every trace with all-to-all kernels below ``path``.

    Summaries are assigned to traces by their banners (same database, same window), else by their
    file names.

    Args:
        path: Folder or file.
        window: Kernels that touch this time, taken whole; None takes all. Printed summaries are
            those of the whole text and are then left out.
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
                    nodes += _of_export(found, window)
        except TraceError as error:
            problems.append(str(error))
    for text in texts:
        if text.section.report == "cuda_gpu_trace":
            try:
                with contained(None):
                    nodes += _of_text(text, texts, window)
            except TraceError as error:
                problems.append(f"{text.path}: {error}")
    nodes.sort(key=lambda node: node.source)
    return Studies(tuple(nodes), tuple(problems))


def _tables_of(found: FoundFile) -> Iterator[_Text]:
    for section in read_stats_text(Path(found.real_path), shown=found.path).tables:
        if section.report in ("cuda_gpu_trace", "cuda_gpu_sum"):
            yield _Text(found.path, section)


def _of_export(found: FoundFile, window: Window | None) -> Iterator[NodeStudy]:
    tables = read_report_tables(
        Path(found.real_path), shown=found.path, parts=frozenset({"kernels", "memory", "places"})
    )
    exchanges = exchanges_in(exchanges_of_tables(tables), window)
    if len(exchanges):
        summary = make_report("cuda_gpu_sum", tables, Filter.of(window))
        made_by = _in_window("an nsys export", window)
        yield NodeStudy(found.path, made_by, study(exchanges), summary, found.path)


def _in_window(made_by: str, window: Window | None) -> str:
    return made_by if window is None else f"{made_by}, filtered here to {format_window(window)}"


def _of_text(trace: _Text, texts: list[_Text], window: Window | None) -> Iterator[NodeStudy]:
    exchanges = exchanges_in(exchanges_of_section(trace.section), window)
    if not len(exchanges):
        return
    found = study(exchanges)
    made_by = _in_window(_made_by(trace.section.provenance), window)
    if window is not None:
        yield NodeStudy(trace.path, made_by, found)
        return
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
    for name, lasted in zip(names, durations.tolist(), strict=True):
        if not is_exchange(name):
            continue
        total, count = sums.get(name, (0, 0))
        sums[name] = (total + lasted, count + 1)
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


_STATISTICS: Final = ("mean", "p50", "p95", "max")
_WIDEST_NAME: Final = 72
_CSV_HEADER: Final = ("source", "exchange", "total_us", "actual_us", "delay_us")
DEFINITION: Final = (
    "Total is the longest and Actual the shortest kernel of one exchange over the devices of the "
    "node; delay = Total - Actual"
)

Writer = Callable[[Studies, float], bytes]


def write_column(studies: Studies, cutoff_percent: float) -> bytes:
    """Text: a table of each study, its distribution of delays, its shares of device time."""
    return text_bytes(
        line for node in studies.nodes for line in (*_node_lines(node, cutoff_percent), "")
    )


def write_csv(studies: Studies, _cutoff_percent: float) -> bytes:
    """Csv with one row per complete exchange."""
    return csv_text(_csv_rows(studies)).encode()


def _csv_rows(studies: Studies) -> Iterator[Sequence[str | int]]:
    yield _CSV_HEADER
    for node in studies.nodes:
        columns = (node.study.total_ns, node.study.actual_ns, node.study.delay_ns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, row in enumerate(rows):
            yield [node.source, number, *(f"{value / 1000:.3f}" for value in row)]


def write_json(studies: Studies, cutoff_percent: float) -> bytes:
    """One JSON document with all studies."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "definition": DEFINITION,
        "unit": "us",
        "cutoff_percent": cutoff_percent,
        "studies": [_node_document(node, cutoff_percent) for node in studies.nodes],
        "problems": list(studies.problems),
    }
    return json_bytes(document, indent=True)


WRITERS: Final[Mapping[str, Writer]] = {
    "column": write_column,
    "csv": write_csv,
    "json": write_json,
}


def write_svg(studies: Studies) -> bytes:
    """Drawing of the delay distributions of all studies; marks p50 and p95 if there is one."""
    curves = {node.source: node.study.delay_ns for node in studies.nodes}
    marks: list[int] = []
    if len(studies.nodes) == 1:
        delay = studies.nodes[0].study.summary()["delay"]
        found = (delay["p50"], delay["p95"])
        marks = [round(value * 1000) for value in found if value is not None]
    return ecdf_svg(curves, title="All-to-all delay (Total - Actual)", marks_ns=marks).encode()


def _node_lines(node: NodeStudy, cutoff_percent: float) -> list[str]:
    found = node.study
    lines = [f"{node.source}: {node.made_by}", ""]
    lines += [_coverage(node), ""]
    rows = [
        (name, *(_number(spread[key]) for key in _STATISTICS))
        for name, spread in found.summary().items()
    ]
    header = ("us", *_STATISTICS)
    lines += table(header, rows, align=("left", *_right(4)))
    if found.num_complete:
        lines += ["", "share of exchanges with at most this delay", *ecdf_lines(found.delay_ns)]
    devices = [
        (device, f"{count:,}", f"{found.last[device]:,}")
        for device, count in found.num_kernels.items()
    ]
    lines += ["", *table(("device", "kernels", "joined last"), devices, align=("left", *_right(2)))]
    return lines + _share_lines(node, cutoff_percent)


def _coverage(node: NodeStudy) -> str:
    found = node.study
    devices = counted(found.rows.shape[1], "device")
    sentence = f"{found.num_complete:,} of {counted(len(found.rows), 'exchange')} have a kernel "
    sentence += f"on each of {devices}"
    if found.coverage is not None:
        sentence += f", {100 * found.coverage:.1f} % of {len(found.exchanges):,} kernels"
    if node.agrees is not None:
        verb = "equal" if node.agrees else "DIFFER from"
        sentence += f"; sums {verb} those of {node.summary_source}"
    return sentence


def _share_lines(node: NodeStudy, cutoff_percent: float) -> list[str]:
    if node.summary is None or not node.summary.columns:
        return []
    lines: list[str] = []
    for title, shares in (
        ("kind of work", kind_shares(node.summary, cutoff_percent)),
        ("operation", operation_shares(node.summary, cutoff_percent)),
    ):
        rows = [
            (f"{share.percent:.1f}", _number(share.total_ns / 1000), str(share.operations), name)
            for share, name in ((share, _short(safe_text(share.name))) for share in shares)
        ]
        header = ("% of device time", "total us", "operations", title)
        lines += ["", *table(header, rows, align=_right(3))]
    return lines


def _right(count: int) -> list[Align]:
    return ["right"] * count


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST_NAME else f"{name[: _WIDEST_NAME - 1]}…"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}"


def _node_document(node: NodeStudy, cutoff_percent: float) -> dict[str, Any]:
    found = node.study
    microseconds = {
        name: np.round(values / 1000, 3).tolist()
        for name, values in (
            ("total", found.total_ns),
            ("actual", found.actual_ns),
            ("delay", found.delay_ns),
        )
    }
    document = {
        "source": node.source,
        "made_by": node.made_by,
        "exchanges": found.num_complete,
        "incomplete_exchanges": len(found.rows) - found.num_complete,
        "coverage": found.coverage,
        "summary": found.summary(),
        "kernels": dict(found.num_kernels),
        "joined_last": dict(found.last),
        "each": microseconds,
        "shares": None,
    }
    if node.summary is not None and node.summary.columns:
        document["shares"] = {
            "source": node.summary_source,
            "agrees": node.agrees,
            "kinds": [_share(share) for share in kind_shares(node.summary, cutoff_percent)],
            "operations": [
                _share(share) for share in operation_shares(node.summary, cutoff_percent)
            ],
        }
    return document


def _share(share: Share) -> dict[str, Any]:
    return {
        "name": share.name,
        "percent": share.percent,
        "total_us": share.total_ns / 1000,
        "operations": share.operations,
    }


Role = Literal["heading", "text", "problem"]

CUTOFF_PERCENT: Final = 1.0
_MOST_ROWS: Final = 200
"""Rows per report: a trace of a long capture is too long for a screen."""
_LARGEST_EXPORT_BYTES: Final = 300_000_000
_LEFT_OUT: Final = frozenset(
    {
        *("Avg", "Min", "StdDev", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ"),
        *("Reg/Trd", "StcSMem", "DymSMem", "SrcMemKd", "DstMemKd", "Ctx", "GreenCtx", "PID"),
        *("TID", "Pid", "Tid", "RangeId", "ParentId", "RangeStack"),
    }
)
"""Columns that are omitted because a screen is too narrow."""


_UNITS: Final = Units("us", "us")


class OverviewLine(Struct, frozen=True):
    """One line of the overview; ``source`` is its file."""

    source: str
    text: str
    role: Role = "text"


def nsys_overview(path: str) -> tuple[OverviewLine, ...]:
    """Lines about all nsys files below ``path``. Raises TraceError if it cannot be opened."""
    return (*_studies(path), *_reports(path))


def _studies(path: str) -> Iterator[OverviewLine]:
    found = studies_of(path, largest_bytes=_LARGEST_EXPORT_BYTES)
    for node in found.nodes:
        source = safe_text(node.source)
        yield OverviewLine(source, f"Delays of all-to-all: {source}", "heading")
        yield OverviewLine(source, f"{DEFINITION}.")
        one = type(found)((node,))
        lines = write_column(one, CUTOFF_PERCENT).decode().splitlines()
        yield from (OverviewLine(source, line) for line in lines)
    for problem in found.problems:
        yield OverviewLine("", safe_text(problem), "problem")


def _reports(path: str) -> Iterator[OverviewLine]:
    for file in discover(path).files_of(NSYS_TEXT, NSYS_TEXT_TRACE):
        yield from _of_file(file)


def _of_file(file: FoundFile) -> Iterator[OverviewLine]:
    source = safe_text(file.path)
    try:
        stats = read_stats_text(Path(file.real_path), shown=file.path)
    except TraceError:  # reported with the studies, which read the same files
        return
    for note in stats.notes:
        yield OverviewLine(source, f"{source}: {safe_text(note.message)}", "problem")
    for section in stats.sections:
        yield from _of_section(source, section)


def _of_section(source: str, section: Section) -> Iterator[OverviewLine]:
    try:
        report = report_of_section(section)
    except TraceError as error:
        yield OverviewLine(source, f"{source}: {safe_text(str(error))}", "problem")
        return
    if not report.columns:
        absent = safe_text(f"{report.name} is absent: {report.absent}")
        yield OverviewLine(source, f"{source}: {absent}", "problem")
        return
    yield OverviewLine(source, f"{safe_text(report.title)}: {source}", "heading")
    for note in report.notes:
        yield OverviewLine(source, safe_text(note), "problem")
    yield from (OverviewLine(source, line) for line in _lines_of(report))
    if len(report) > _MOST_ROWS:
        rest = counted(len(report) - _MOST_ROWS, "row")
        yield OverviewLine(source, f" … {rest} more: ccltui stats prints them")
    yield OverviewLine(source, "")


def _lines_of(report: Report) -> list[str]:
    """The first rows of a report, names last, without empty columns."""
    columns = [one for one in report.columns if one.name not in _LEFT_OUT]
    printed = [(one, cells(one, _UNITS)[:_MOST_ROWS]) for one in columns]
    filled = sorted((pair for pair in printed if any(pair[1])), key=lambda pair: is_text(pair[0]))
    return table(
        [header(column, _UNITS) for column, _ in filled],
        list(zip(*(texts for _, texts in filled), strict=True)),
        align=["left" if is_text(column) else "right" for column, _ in filled],
    )
