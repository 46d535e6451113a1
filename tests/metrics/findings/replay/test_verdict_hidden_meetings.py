"""The verdict where ranks meet in work that no collective records, and on unequal passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ccltui.demo.planted import Fault, JobSpec, write_planted
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

LATE = Fault("data_loading", (2,), extra_ns=7_000_000, silent=True)
SHARDED = JobSpec(family="fsdp", dp=4, steps=6, transfer_ns=300_000, seed=3, faults=(LATE,))


def details_of(tmp_path: Path, spec: JobSpec) -> dict[str, Any]:
    write_planted(tmp_path / "job", spec)
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "store", jobs=1))
    return dict(find("verdict").run(view).details)


@pytest.mark.parametrize("level", ["names", "no_groups"])
def test_one_late_host_is_not_named_as_all_where_devices_meet_in_copies(
    tmp_path: Path, level: Any
) -> None:
    spec = replace(SHARDED, gather="copy_engine", level=level)

    details = details_of(tmp_path, spec)

    assert (details["verdict"], details["culprit"]) == ("inconclusive", None)
    assert "copy data to each other outside of recorded collectives" in details["why"]
    assert details["also"][0]["rung"] == "host"
    assert details["also"][0]["saves_ms"] == pytest.approx(details["loss_ms"], rel=0.2)


def test_the_same_late_host_is_named_where_the_collectives_are_recorded(tmp_path: Path) -> None:
    details = details_of(tmp_path, SHARDED)

    assert details["verdict"] == "host"
    assert details["culprit"]["ranks"] == ["2"]


def test_all_late_hosts_are_named_where_the_collectives_are_recorded(tmp_path: Path) -> None:
    details = details_of(tmp_path, replace(SHARDED, faults=(replace(LATE, ranks=()),)))

    assert (details["verdict"], details["culprit"]) == ("host", None)


def test_passes_of_unequal_lengths_hide_no_slow_step(tmp_path: Path) -> None:
    # Collectives on the stream of the kernels divide a step into passes of 0.3 to 6 ms.
    slow = Fault("occasional_worker", (2,), 2.2, steps=(4,))
    spec = replace(SHARDED, gather="copy_engine", same_stream=True, faults=(slow,))

    details = details_of(tmp_path, spec)

    assert details["verdict"] == "occasional_worker"
    assert details["culprit"]["ranks"] == ["2"]
    assert len(details["culprit"]["steps"]) == 1
