"""Write all-to-all studies as text, csv, json and svg."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ccltui.draw.ecdf import ecdf_lines, ecdf_svg
from ccltui.metrics.nsys_reports.alltoall_delays import Share, kind_shares, operation_shares
from ccltui.parsers.numbers import counted
from ccltui.parsers.safe_text import safe_text
from ccltui.report.csv_text import csv_text
from ccltui.report.json_document import SCHEMA_VERSION
from ccltui.report.nsys_text.alltoall_study import NodeStudy, Studies
from ccltui.report.printable_json import json_bytes
from ccltui.report.text_layout import Align, table, text_bytes

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
