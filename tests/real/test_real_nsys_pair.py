"""A public pair of captures before and after a change: what nsys-ai reports is found.

The numbers are those of its guide to reading a diff, sums over both devices in ms; the totals of
each capture are sums of its kernel table by SQL.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.metrics.compare.compare_jobs import compare_jobs
from ccltui.metrics.compare.job_side import JobTable, job_table
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

FLASH = ("flash::flash_fwd_kernel", "comp")
SEND_RECV = ("ncclDevKernel_SendRecv", "comm")


def table(shared: Path, name: str) -> JobTable:
    path = shared / "nsys" / "nsys-ai" / name
    if not path.exists():
        pytest.skip(f"{name} is not among the public captures")
    return job_table(View(open_job(path)), name)


def test_totals_of_the_capture_before(shared: Path) -> None:
    before = table(shared, "mfu_2gpu_before.sqlite")

    flash, transfers = before.kernels[FLASH], before.kernels[SEND_RECV]
    assert (flash.calls, flash.total_ns) == (68, 136_355_595 + 135_961_783)
    assert (transfers.calls, transfers.total_ns) == (66, 17_172_652 + 8_229_100)


def test_the_change_that_nsys_ai_reports(shared: Path) -> None:
    before, after = (table(shared, f"mfu_2gpu_{name}.sqlite") for name in ("before", "after"))

    found = compare_jobs(before, after)

    first, second = found.kernels[:2]
    assert (first.key, second.key) == (FLASH, SEND_RECV)
    assert first.time.delta == pytest.approx(-31.56, abs=0.005)
    assert second.time.delta == pytest.approx(8.34, abs=0.005)
    assert [(row.a.calls, row.b.calls) for row in (first, second) if row.a and row.b] == [
        (68, 60),
        (66, 62),
    ]
    assert sum(row.delta for row in found.waterfall) == pytest.approx(found.step_time.delta)
    assert found.verdict == "unknown"
