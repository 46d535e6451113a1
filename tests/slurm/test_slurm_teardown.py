"""The cluster leaves nothing behind, however its tests end."""

from __future__ import annotations

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
