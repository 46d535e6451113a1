"""Coverage from grids in public exports of nsys, against a plain sum in SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

_KERNELS = """
    SELECT sum((k.end - k.start) * min(1.0, 1.0 * gridX * gridY * gridZ / g.smCount)),
           sum(k.end - k.start)
    FROM CUPTI_ACTIVITY_KIND_KERNEL k
    JOIN StringIds s ON s.id = k.demangledName
    JOIN TARGET_INFO_GPU g ON g.id = k.deviceId
    WHERE s.value NOT LIKE 'nccl%'
"""


@pytest.mark.parametrize(
    "name",
    [
        "ddp53/profiles/ddp53_profile.sqlite",
        "paracodex/workdirs/serial_omp_hecbench_workdir/data/src/pathfinder-omp/nsys_profile.sqlite",
    ],
)
def test_coverage(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "nsys" / name
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        covered, known = connection.execute(_KERNELS).fetchone()
    job = open_job(path, cache_dir=tmp_path, jobs=1)

    details = find("sm").run(View(job, ViewOptions(span="trace"))).details

    assert details["sm_coverage"] == pytest.approx(covered / known, rel=1e-6)
    assert details["coverage_known_ratio"] == pytest.approx(1.0)
    assert details["achieved_occupancy_pct"] is None
