"""The project's scripts and a real queue: what is accepted, what is refused, what runs when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Cluster
from jobs import script, submit, wait_for_end, wait_for_state

from workloads import ANALYSE, ROOT, log_of, submitted, tiny_workload

WORKLOADS = sorted(path.parent.name for path in (ROOT / "sbatch" / "workloads").glob("*/run.sh"))


def printed(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "ccltui", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def test_an_analysis_writes_what_the_command_prints(
    cluster: Cluster, demo: Path, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)

    job = submitted(cluster, workload, ANALYSE, demo, "--", "--metric", "straggler_lag")

    ended = wait_for_end(cluster, job, seconds=60)
    assert ended.state == "COMPLETED", log_of(workload, job)
    options = ("--metric", "straggler_lag", "--format")
    assert (demo / "metrics.json").read_text() == printed(demo, *options, "json")
    assert (demo / "metrics.csv").read_text() == printed(demo, *options, "csv")


def test_an_analysis_waits_for_its_job_and_leaves_the_queue_when_that_fails(
    cluster: Cluster, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)
    training = submit(cluster, script(tmp_path, "sleep 2; exit 3"), cwd=tmp_path)

    job = submitted(cluster, workload, ANALYSE, "--after", training, tmp_path / "later")

    assert wait_for_state(cluster, job, "Dependency").state == "PENDING"
    assert wait_for_end(cluster, training).exit_code == 3
    assert wait_for_end(cluster, job).state == "CANCELLED"


def test_an_analysis_of_nothing_fails_with_the_reason_in_its_log(
    cluster: Cluster, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)
    (tmp_path / "empty").mkdir()

    job = submitted(cluster, workload, ANALYSE, tmp_path / "empty")

    ended = wait_for_end(cluster, job)
    assert (ended.state, ended.exit_code) == ("FAILED", 1)
    assert f"{tmp_path}/empty" in log_of(workload, job)


@pytest.mark.parametrize("name", WORKLOADS)
def test_slurm_would_take_every_workload(accounting: Cluster, tmp_path: Path, name: str) -> None:
    environment = {
        "CCLTUI_SITE": "perlmutter",
        "SITE_SCRATCH": str(tmp_path),
        "VENV_DIR": sys.prefix,
        "PYTHONPATH": str(ROOT),
    }
    run = ROOT / "sbatch" / "workloads" / name / "run.sh"

    done = accounting.run(run, "--test-only", "--account", "m1234", env=environment)

    assert done.returncode == 0, done.stderr
    assert " to start at " in done.stderr


@pytest.mark.parametrize("place", [f"sbatch/workloads/{WORKLOADS[0]}", "sbatch", "."])
def test_a_batch_script_finds_its_library_from_where_it_was_submitted(
    cluster: Cluster, tmp_path: Path, place: str
) -> None:
    """Slurm runs a copy of it, which lies beside nothing."""
    environment = {
        "CCLTUI_SITE": "generic",
        "SITE_SCRATCH": str(tmp_path),
        "VENV_DIR": str(tmp_path / "absent"),
        "SBATCH_ACCOUNT": "m1234",
    }
    batch = ROOT / "sbatch" / "workloads" / WORKLOADS[0] / "run.sbatch"
    options = ("--parsable", "--constraint=gpu", f"--output={tmp_path}/out.log")

    done = cluster.run("sbatch", *options, batch, cwd=ROOT / place, env=environment)

    assert done.returncode == 0, done.stderr
    assert wait_for_end(cluster, done.stdout.strip()).exit_code == 1
    log = (tmp_path / "out.log").read_text()
    assert f"error: no Python environment in {tmp_path}/absent\n" in log


@pytest.mark.parametrize(("chain", "second"), [("afterok", "stuck"), ("afterany", "FAILED")])
def test_a_chain_of_workloads_stops_at_a_failure_or_goes_on(
    cluster: Cluster, tmp_path: Path, chain: str, second: str
) -> None:
    environment = {
        "CCLTUI_SITE": "generic",
        "SITE_ACCOUNT": "m1234",
        "SITE_CONSTRAINT": "gpu",
        "SITE_SCRATCH": str(tmp_path),
        "VENV_DIR": str(tmp_path / "absent"),
        "PYTHONPATH": "",
    }
    options = ("--only", "llama3*", "--chain", chain)

    done = cluster.run(ROOT / "sbatch" / "submit_all.sh", *options, env=environment)

    assert done.returncode == 0, done.stderr
    jobs = [line.split()[-1] for line in done.stdout.splitlines()[1:]]
    ended = wait_for_end(cluster, jobs[0])
    assert (ended.state, ended.exit_code) == ("FAILED", 1)
    (log,) = tmp_path.glob(f"ccl-bench-traces/logs/*_{jobs[0]}.out")
    assert f"error: no Python environment in {tmp_path}/absent\n    fix: run " in log.read_text()
    if second == "stuck":
        wait_for_state(cluster, jobs[1], "DependencyNeverSatisfied")
        cluster.run("scancel", jobs[1])
    else:
        assert wait_for_end(cluster, jobs[1]).state == second


@pytest.mark.parametrize("command", ["workload", "analysis"])
def test_a_wrong_account_is_refused_and_told_what_to_do(
    accounting: Cluster, demo: Path, tmp_path: Path, command: str
) -> None:
    workload = tiny_workload(tmp_path)
    words = [*ANALYSE, demo] if command == "analysis" else [workload.submit, workload.folder]

    done = accounting.run(*words, "--account", "m9999", env=workload.environment)

    assert (done.returncode, done.stdout) == (1, "")
    assert "Invalid account or account/partition combination specified" in done.stderr
    assert "error: Slurm refused the job\n    fix: " in done.stderr
    assert "sacctmgr show assoc" in done.stderr


def test_both_commands_print_their_plan_and_submit_nothing(
    cluster: Cluster, demo: Path, tmp_path: Path
) -> None:
    workload = tiny_workload(tmp_path)
    before = cluster.run("squeue", "-h", "-t", "all", "-o", "%i").stdout

    plans = [
        cluster.run(*words, "--dry-run", env=workload.environment)
        for words in ((workload.submit, workload.folder), (*ANALYSE, demo, "--after", "7"))
    ]

    assert [plan.returncode for plan in plans] == [0, 0]
    assert f"{workload.folder}/run.sbatch" in plans[0].stdout
    assert "--dependency=afterok:7 --kill-on-invalid-dep=yes" in plans[1].stdout
    assert f"{demo}/metrics.json" in plans[1].stdout
    assert cluster.run("squeue", "-h", "-t", "all", "-o", "%i").stdout == before
