"""What the project relies on in a real Slurm: refusals, arrays, dependencies, ends of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import Cluster
from daemons import await_true
from jobs import JobState, script, state_of, submit, wait_for_end, wait_for_state


def test_two_nodes_have_their_own_names_addresses_and_devices(
    cluster: Cluster, tmp_path: Path
) -> None:
    text = "srun bash -c 'echo \"$(hostname) $(hostname -i) $CUDA_VISIBLE_DEVICES\"'"
    one = ("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", "--constraint=gpu")
    job = submit(cluster, script(tmp_path, text, *one, "--output=out.log"), cwd=tmp_path)

    assert wait_for_end(cluster, job) == JobState("COMPLETED", "None", 0, "node[1-2]")
    assert sorted((tmp_path / "out.log").read_text().splitlines()) == [
        "node1 127.0.1.1 0,1,2,3",
        "node2 127.0.1.2 0,1,2,3",
    ]


def test_more_gpus_than_a_node_has_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.run("sbatch", "--gpus-per-node=5", "--wrap=true", cwd=tmp_path)

    assert done.returncode == 1
    assert "Requested node configuration is not available" in done.stderr


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--account=m9999", "Invalid account or account/partition combination specified"),
        ("--qos=premium", "Invalid qos specification"),
        ("--partition=cpu", "invalid partition specified: cpu"),
    ],
)
def test_what_the_site_does_not_know_is_refused(
    accounting: Cluster, tmp_path: Path, option: str, words: str
) -> None:
    done = accounting.run("sbatch", option, "--wrap=true", cwd=tmp_path)

    assert done.returncode == 1
    assert words in done.stderr


def test_the_right_account_is_accepted(accounting: Cluster, tmp_path: Path) -> None:
    path = script(tmp_path, "true", "--account=m1234", "--qos=debug", "--output=/dev/null")

    assert wait_for_end(accounting, submit(accounting, path, cwd=tmp_path)).state == "COMPLETED"


def test_every_task_of_an_array_runs_once(cluster: Cluster, tmp_path: Path) -> None:
    path = script(tmp_path, 'echo "$SLURM_ARRAY_TASK_ID"', "--array=0-4%2", "--output=task_%a.log")
    job = submit(cluster, path, cwd=tmp_path)

    states = [wait_for_end(cluster, f"{job}_{task}").state for task in range(5)]

    assert states == ["COMPLETED"] * 5
    assert [(tmp_path / f"task_{n}.log").read_text() for n in range(5)] == [
        f"{n}\n" for n in range(5)
    ]


def test_afterok_runs_after_a_success(cluster: Cluster, tmp_path: Path) -> None:
    first = submit(
        cluster, script(tmp_path, "sleep 1; touch done", "--output=/dev/null"), cwd=tmp_path
    )
    after = script(tmp_path, "test -e done", "--output=/dev/null", name="after.sbatch")
    second = submit(cluster, f"--dependency=afterok:{first}", after, cwd=tmp_path)

    waiting = state_of(cluster, second)
    ended = wait_for_end(cluster, second)

    assert (waiting.state, waiting.reason) == ("PENDING", "Dependency")
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0)


def test_afterok_never_runs_after_a_failure(cluster: Cluster, tmp_path: Path) -> None:
    first = submit(cluster, script(tmp_path, "exit 3", "--output=/dev/null"), cwd=tmp_path)
    after = script(tmp_path, "touch ran", "--output=/dev/null", name="after.sbatch")
    second = submit(cluster, f"--dependency=afterok:{first}", after, cwd=tmp_path)

    assert (ended := wait_for_end(cluster, first)).state == "FAILED"
    assert ended.exit_code == 3
    stuck = wait_for_state(cluster, second, "DependencyNeverSatisfied")
    assert stuck.state == "PENDING"
    cluster.run("scancel", second)
    assert wait_for_end(cluster, second).state == "CANCELLED"
    assert not (tmp_path / "ran").exists()


def test_a_cancelled_job_ends_on_both_nodes(cluster: Cluster, tmp_path: Path) -> None:
    text = "srun bash -c 'touch \"started_$(hostname)\"; sleep 600'"
    job = submit(cluster, script(tmp_path, text, "--nodes=2", "--output=/dev/null"), cwd=tmp_path)
    started = [tmp_path / f"started_node{number}" for number in (1, 2)]
    await_true(lambda: all(path.exists() for path in started), seconds=30, what="both tasks")

    cluster.run("scancel", job)

    assert wait_for_end(cluster, job).state == "CANCELLED"
    await_true(lambda: not cluster.processes_of_job(job), seconds=10, what="the end of both tasks")


def test_a_failing_task_ends_the_job(cluster: Cluster, tmp_path: Path) -> None:
    text = "srun --kill-on-bad-exit=1 bash -c '[[ $SLURM_PROCID = 0 ]] && exec sleep 600; exit 7'"
    path = script(tmp_path, text, "--nodes=2", "--ntasks-per-node=1", "--output=out.log")

    ended = wait_for_end(cluster, submit(cluster, path, cwd=tmp_path))

    # srun gives the highest status: that of the task it ended (by TERM or KILL), not of the
    # one that failed; the log names that one.
    assert ended.state == "FAILED"
    assert ended.exit_code in (143, 137)
    assert "node2: task 1: Exited with exit code 7" in (tmp_path / "out.log").read_text()
