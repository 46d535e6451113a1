"""A real nsys against the same files, where one is on PATH: `export` and `stats`.

Never required. 2022 and later; older ones name their reports otherwise.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ccltui.metrics.nsys_reports.make_report import make_report
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.report_export import export_report
from ccltui.parsers.nsys.report_tables import read_report_tables
from ccltui.report.nsys_writers import Units, rows

NSYS = shutil.which("nsys")
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(NSYS is None, reason="no nsys on PATH"),
]

FILES = ("ddp53/profiles/ddp53_profile", "nsys-ai/mfu_2gpu_before")
REPORTS = {
    "gpukernsum": ("cuda_gpu_kern_sum", "Name"),
    "gpumemtimesum": ("cuda_gpu_mem_time_sum", "Operation"),
    "gpumemsizesum": ("cuda_gpu_mem_size_sum", "Operation"),
    "cudaapisum": ("cuda_api_sum", "Name"),
    "nvtxsum": ("nvtx_sum", "Range"),
    "osrtsum": ("osrt_sum", "Name"),
}
"""The older names are known to all versions. By which column the rows of a report are told."""
WHOLES: dict[str, Callable[[Iterable[float]], float]] = {
    **dict.fromkeys(("Total Time", "Total", "Num Calls", "Instances", "Count"), sum),
    "Min": min,
    "Max": max,
}
_SHORT = {
    "HtoD": "Host-to-Device",
    "DtoH": "Device-to-Host",
    "DtoD": "Device-to-Device",
    "PtoP": "Peer-to-Peer",
}


def stats(export: Path, report: str) -> list[dict[str, str]]:
    """The rows that nsys prints, none where it has none."""
    assert NSYS is not None
    command = [NSYS, "stats", "-q", "-f", "csv", "-r", report, str(export)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return list(csv.DictReader(io.StringIO(done.stdout.strip())))


def named(text: str) -> str:
    """A name as nsys of 2023 and later writes it."""
    return re.sub(r"(?<=memcpy )\w+(?=\])", lambda found: _SHORT.get(found[0], found[0]), text)


@pytest.fixture(params=FILES)
def export(request: pytest.FixtureRequest, shared: Path, tmp_path: Path) -> Path:
    """A copy: nsys may write beside what it reads."""
    return Path(shutil.copy(shared / f"nsys/{request.param}.sqlite", tmp_path / "a.sqlite"))


@pytest.mark.parametrize("report", REPORTS)
def test_every_number_of_a_summary_is_that_of_nsys(export: Path, report: str) -> None:
    name, key = REPORTS[report]
    tables = read_report_tables(export)
    ours = make_report(name, tables)
    theirs = stats(export, report)

    headers = [column.name for column in ours.columns]
    found = {}
    for ours_row in rows(ours, Units()):
        cells = dict(zip(headers, ours_row, strict=True))
        found[cells[key], cells.get("Style", "")] = cells
    expected: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in theirs:
        cells = {re.sub(r" \(\w+\)$", "", header): cell for header, cell in row.items()}
        expected.setdefault((named(cells[key]), cells.get("Style", "")), []).append(cells)
    assert found.keys() == expected.keys()
    for place, parts in expected.items():  # of 2022, one for each grid of a kernel
        for header, whole in WHOLES.items():
            if header in parts[0] and header in found[place]:
                value = whole(float(cells[header]) for cells in parts)
                assert float(found[place][header]) == pytest.approx(value, abs=1e-3), header


def test_a_report_is_exported_or_refused_in_the_words_of_nsys(shared: Path, tmp_path: Path) -> None:
    """Reports of 2025: an older nsys refuses them by its version."""
    said = []
    for path in sorted((shared / "nsys/paracodex").rglob("*.nsys-rep")):
        try:
            made = export_report(path, tmp_path / f"{path.stem}.sqlite", shown=path.name)
        except TraceError as error:
            said.append(str(error))
        else:
            assert read_report_tables(made).names
            made.unlink()
    for text in said:
        assert "nsys could not export it" in text
        assert "\n" not in text
