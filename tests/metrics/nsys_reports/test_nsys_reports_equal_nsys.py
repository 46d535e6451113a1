"""Every report equals that of a real nsys 2023.4.4, cell by cell.

``nsys_2023_4_made.json`` holds its csv for the database of `nsys_database`: the lines,
or for long reports their number and the digest of the sorted lines. ``nsys_2023_4_recorded.json``
holds digests for recorded databases, which are compared where they are at hand, and
``nsys_2023_4_filtered.json`` digests with ``--filter-time`` and ``--filter-nvtx``, "" without rows.
Lines are sorted because nsys leaves the order of equal totals open.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from nsys_database import FAMILIES, write_database

from ccltui.metrics.nsys_reports.make_report import PREFIX_PARTS, REPORTS, make_report
from ccltui.metrics.nsys_reports.report import Report
from ccltui.metrics.nsys_reports.row_filter import (
    EVERYTHING,
    Filter,
    filter_of_range,
    parse_range_filter,
)
from ccltui.parsers.nsys.report_tables import Part, ReportTables, read_report_tables
from ccltui.report.nsys_writers import parse_layout, write_reports

HERE = Path(__file__).parent
MADE: dict[str, Any] = json.loads((HERE / "nsys_2023_4_made.json").read_text())
RECORDED: dict[str, dict[str, str]] = json.loads((HERE / "nsys_2023_4_recorded.json").read_text())
FILTERED: dict[str, dict[str, str]] = json.loads((HERE / "nsys_2023_4_filtered.json").read_text())
KERNEL_NAMES = {"base": "shortName", "mangled": "mangledName"}


def report_of(path: Path, label: str, chosen: str = "") -> Report:
    name, *arguments = label.split(":")
    recipe = REPORTS[name]
    by_range = "nvtx-name" in arguments
    forms = [KERNEL_NAMES[one] for one in arguments if one in KERNEL_NAMES]
    parts = frozenset[Part](["ranges", "places"] if chosen else [])
    tables = read_report_tables(
        path,
        kernel_name=forms[0] if forms else "demangledName",
        parts=parts | recipe.parts | (PREFIX_PARTS if by_range else frozenset()),
        raw=recipe.raw,
    )
    return make_report(name, tables, bounds_of(tables, chosen), by_range=by_range)


def bounds_of(tables: ReportTables, chosen: str) -> Filter:
    """Parse the filters of FILTERED: two times, else the name of a range."""
    if not chosen:
        return EVERYTHING
    times = chosen.split("/")
    if all(one.isdigit() for one in times):
        return Filter(*map(int, times))
    found = filter_of_range(tables, parse_range_filter(chosen))
    assert isinstance(found, Filter)
    return found


def lines_of(path: Path, label: str, chosen: str = "") -> list[str]:
    report = report_of(path, label, chosen)
    if report.absent:
        return [f"SKIPPED: {report.absent}"]
    text = write_reports([("", [report])], parse_layout("csv")).decode()
    return text.strip("\n").split("\n")


def digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_database(tmp_path_factory.mktemp("nsys") / "made.sqlite")


@pytest.mark.parametrize("label", MADE)
def test_reports_of_a_made_database(made: Path, label: str) -> None:
    expected, lines = MADE[label], lines_of(made, label)

    if isinstance(expected, list):
        assert sorted(lines) == sorted(expected)
    else:
        assert lines[0] == expected["first"][0]
        assert len(lines) - 1 == expected["rows"]
        assert digest(lines) == expected["sha256"]


@pytest.mark.parametrize("chosen", FILTERED)
def test_filtered_reports_of_a_made_database(made: Path, chosen: str) -> None:
    """A window selects rows by their own times, a range also by its thread or process."""
    different = [
        label
        for label, wanted in FILTERED[chosen].items()
        for lines in [lines_of(made, label, chosen)]
        if (digest(lines)[:24] if wanted else "SKIPPED") != (wanted or lines[0].partition(":")[0])
    ]

    assert different == []


@pytest.mark.parametrize("name", RECORDED)
def test_reports_of_a_recorded_database(shared: Path, name: str) -> None:
    path = shared / "nsys" / f"{name}.sqlite"
    if not path.exists():
        pytest.skip(f"no {path}")

    different = [
        label
        for label, wanted in RECORDED[name].items()
        if digest(lines_of(path, label))[:24] != wanted
    ]

    assert different == []


def test_every_report_without_its_tables_says_what_is_missing(tmp_path: Path) -> None:
    path = write_database(tmp_path / "empty.sqlite", [])

    reasons = {name: report_of(path, name).absent or "" for name in REPORTS}

    assert all(reason.startswith("the capture does not contain ") for reason in reasons.values())
    assert reasons["nvtx_gpu_proj_trace"].endswith("NV Tools Extension (NVTX) data.")
    assert reasons["cuda_kern_exec_sum"].endswith("CUDA kernel data.")
    assert reasons["um_sum"].endswith("CUDA memory transfers data.")
    assert reasons["openmp_sum"].endswith("OpenMP event data.")


@pytest.mark.parametrize("family", FAMILIES)
def test_no_report_fails_without_the_tables_of_one_family(tmp_path: Path, family: str) -> None:
    families = [one for one in FAMILIES if one != family]
    path = write_database(tmp_path / "part.sqlite", families)

    for name in REPORTS:
        report = report_of(path, name)

        assert bool(report.columns) != bool(report.absent)


def test_messages_and_their_sizes_by_function(made: Path) -> None:
    """mpi_event_sum and mpi_msg_size_sum came after 2023.4: their rows follow from the trace."""
    trace = report_of(made, "mpi_event_trace")
    events, sizes = (report_of(made, f"mpi_{one}_sum") for one in ("event", "msg_size"))

    assert sum(events.column("Instances").values) == len(trace)
    assert sum(events.column("Total Time").values) == sum(trace.column("Duration").values)
    sources = sizes.column("Source").values
    totals = dict.fromkeys(sources, 0)
    for source, total in zip(sources, sizes.column("Total Message Volume").values, strict=True):
        totals[source] += int(total)
    assert totals["p2p"] == sum(trace.column("Size").values)
    assert totals["coll_send"] == sum(trace.column("CollSendSize").values)
    assert totals["coll_recv"] == sum(trace.column("CollRecvSize").values)


def test_calls_of_a_library_by_its_domain(made: Path) -> None:
    named = report_of(made, "nvtx_sum")
    nccl = report_of(made, "nccl_sum")

    of_all = dict(zip(named.column("Range").values, named.column("Total Time").values, strict=True))
    assert list(nccl.column("Text").values) == ["ncclAllReduce"]
    assert list(nccl.column("Total Time").values) == [of_all["NCCL:ncclAllReduce"]]
    assert (
        report_of(made, "ucx_sum").absent
        == "the capture does not contain ranges of the NVTX domain UCX."
    )
