"""The cluster leaves nothing behind, however its tests end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, private_directory
from daemons import await_true, kill_all, processes_with
from jobs import script, submit

_START = """\
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from cluster import Cluster
Cluster(Path(sys.argv[1]), nodes=1, accounts=False).start()
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def directory(slurm_installed: None) -> Iterator[Path]:
    with private_directory() as path:
        yield path


def mark(directory: Path) -> str:
    return f"SLURM_CONF={directory}/slurm.conf"


def test_a_running_job_ends_with_its_cluster(directory: Path, tmp_path: Path) -> None:
    cluster = Cluster(directory, nodes=1, accounts=False)
    cluster.start()
    job = submit(
        cluster, script(tmp_path, "sleep 600 & sleep 600", "--output=/dev/null"), cwd=tmp_path
    )
    await_true(lambda: len(cluster.processes_of_job(job)) >= 3, seconds=30, what="the job")

    cluster.stop()

    assert processes_with(mark(directory)) == []


@contextlib.contextmanager
def bystander(conf: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shell of the user's in which SLURM_CONF of the cluster is exported."""
    with subprocess.Popen(["sleep", "600"], env={**os.environ, "SLURM_CONF": conf}) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_shell_that_uses_the_cluster_outlives_it(directory: Path) -> None:
    cluster = Cluster(directory, nodes=1, accounts=False)
    cluster.start()
    with bystander(str(cluster.plan.conf)) as shell:
        cluster.stop()

        assert processes_with(mark(directory)) == [shell.pid]
        assert shell.poll() is None


@pytest.mark.parametrize("end", ["its input ends", "SIGTERM"])
def test_who_holds_a_cluster_ends_what_he_started_alone(slurm_installed: None, end: str) -> None:
    command = [sys.executable, str(Path(__file__).parent / "hold_cluster.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        conf = holder.stdout.readline().strip()
        assert Path(conf).is_file()
        with bystander(conf) as shell:
            if end == "SIGTERM":
                holder.terminate()
            else:
                holder.stdin.close()
            holder.wait(60)

            assert processes_with(f"SLURM_CONF={conf}") == [shell.pid]
            assert shell.poll() is None
            assert not Path(conf).parent.exists()


def test_everything_dies_with_a_killed_test_run(directory: Path) -> None:
    command = [sys.executable, "-c", _START, str(directory), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as starter:
        try:
            assert starter.stdout is not None
            assert starter.stdout.readline() == b"up\n"
            starter.send_signal(signal.SIGKILL)
            starter.wait()

            await_true(lambda: not processes_with(mark(directory)), seconds=10, what="the end")
        finally:
            starter.kill()
            kill_all(processes_with(mark(directory)))
