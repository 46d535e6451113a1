"""What mending a culprit saves where hosts are nearly as slow as devices: simulated jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.demo.planted import JobSpec, write_planted
from ccltui.demo.planted.job_spec import Fault
from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

SLOW = Fault("slow_worker", (3,), 1.5)
BLOCKED = Fault("synchronisation", (3,), extra_ns=3_000_000)


def spec_of(fault: Fault, *, host_sync: bool = False) -> JobSpec:
    """A step whose launches take as long as its kernels do."""
    return JobSpec(
        family="tp",
        dp=2,
        tp=2,
        gpus_per_node=4,
        steps=6,
        micro_batches=4,
        layers=1,
        kernel_ns=49_000,
        transfer_ns=67_000,
        host_op_ns=52_000,
        host_sync=host_sync,
        faults=(fault,),
        clock_offsets_ns=(0,),
        clock_drifts_ppb=(0,),
        seed=5,
    )


@pytest.mark.parametrize("fault", [SLOW, BLOCKED], ids=["slow_worker", "host"])
@pytest.mark.parametrize("host_sync", [False, True])
def test_no_more_is_saved_than_the_launches_of_the_hosts_allow(
    fault: Fault, host_sync: bool, tmp_path: Path
) -> None:
    truth = write_planted(tmp_path / "job", spec_of(fault, host_sync=host_sync)).truth
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1))
    found = find("verdict").run(view).details

    assert found["culprit"]["ranks"] == ["3"], found["why"]
    assert found["saves_ms"] == pytest.approx(truth.faults[0].cost_ms, rel=0.1)


def test_waiting_for_the_device_is_no_need_of_a_host(tmp_path: Path) -> None:
    # synchronized after every step: its period is that of the device
    write_planted(tmp_path / "job", spec_of(Fault("slow_worker", (3,), 3.0), host_sync=True))
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1))
    ladder = ladder_of(view)

    assert (ladder.typical_need_ns[1:] > 0).all()
    assert (ladder.host_need_ns < 0.8 * ladder.rungs[6]).all()
