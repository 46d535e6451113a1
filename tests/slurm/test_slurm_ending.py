"""A job that is asked to end before its time: what it leaves, and what waits for it."""

from __future__ import annotations

from pathlib import Path

from cluster import Cluster
from daemons import await_true
from jobs import wait_for_end, wait_for_state

from workloads import log_of, submit_workload, tiny_workload

CAPTURE = "profile_trace/iteration_6/rank{rank}_trace.json"


def test_a_job_that_is_about_to_be_preempted_keeps_its_traces_and_fails(
    cluster: Cluster, torch_installed: None, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)
    options = ("--constraint", "gpu", "--profile", "torch", "--steps", "1000000")
    job = submit_workload(cluster, workload, *options)
    later = submit_workload(cluster, workload, "--dependency", f"afterok:{job}", "--parsable")
    await_true(
        lambda: all((workload.traces / CAPTURE.format(rank=rank)).is_file() for rank in range(4)),
        seconds=180,
        what="a first capture of all ranks",
    )

    asked = cluster.run("scancel", "--batch", "--signal=USR1", job)

    assert asked.returncode == 0, asked.stderr
    ended = wait_for_end(cluster, job, seconds=180)
    log = log_of(workload, job)
    assert (ended.state, ended.exit_code) == ("FAILED", 138), log[-4000:]
    assert "error: SIGUSR1 ended the training before its last step" in log
    assert "kineto traces linked: 4 of 4 ranks" in log
    assert not (workload.traces / "RUN_COMPLETE.txt").exists()
    assert wait_for_state(cluster, later, "DependencyNeverSatisfied").state == "PENDING"
    cluster.run("scancel", later)
    await_true(lambda: not cluster.processes_of_job(job), seconds=60, what="the end of all ranks")
