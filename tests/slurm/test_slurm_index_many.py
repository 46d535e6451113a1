"""``ccltui index`` of 64 ranks on four nodes of a real Slurm while all goes wrong that can.

``make index-cost`` prints the CPU time of the same engines.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster, private_directory
from daemons import await_true, processes_with
from index_cost import columns, cost

RANKS = 64
WORKERS = 4
PER_TASK = 8
OVERHEAD = 1.3
"""Of CPU time, against one process here; the least of two runs is measured, and still varies."""


@pytest.fixture(scope="module")
def four_nodes(slurm_installed: None) -> Iterator[Cluster]:
    """A cluster of its own."""
    with private_directory() as directory:
        running = Cluster(directory, nodes=4)
        running.start()
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of 64 ranks of 3 MB."""
    directory = tmp_path_factory.mktemp("many") / "job"
    command = [sys.executable, "-m", "ccltui", "demo", str(directory), "--no-open"]
    command += [f"--ranks={RANKS}", "--rank-size=3"]
    subprocess.run(command, check=True, capture_output=True)
    return directory


@pytest.fixture(scope="module")
def expected(job: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The columns that this machine stores."""
    store = tmp_path_factory.mktemp("here") / "store"
    command = [sys.executable, "-m", "ccltui", "index", str(job), "--store", str(store)]
    subprocess.run(command, check=True, capture_output=True)
    found = columns(store)
    assert len(found) == RANKS
    return found


def readers(cluster: Cluster, mark: str) -> list[int]:
    """Processes in jobs of the cluster whose command line holds ``mark``."""
    found = []
    for pid in processes_with(f"SLURM_CONF={cluster.plan.conf}"):
        with contextlib.suppress(OSError):  # it has just ended
            folder = Path(f"/proc/{pid}")
            if (
                mark.encode() in (folder / "cmdline").read_bytes()
                and b"SLURM_JOB_ID=" in (folder / "environ").read_bytes()
            ):
                found.append(pid)
    return found


def set_state(cluster: Cluster, node: str, state: str) -> None:
    reason = ("Reason=test",) if state == "DRAIN" else ()
    done = cluster.run("scontrol", "update", f"NodeName={node}", f"State={state}", *reason)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def drain(four_nodes: Cluster) -> Iterator[Callable[[str], None]]:
    """Drain a node until the test ends."""
    drained: list[str] = []

    def one(node: str) -> None:
        set_state(four_nodes, node, "DRAIN")
        drained.append(node)

    yield one
    for node in drained:
        set_state(four_nodes, node, "RESUME")


class Command:
    """``ccltui index`` on one store, started again and again."""

    def __init__(self, cluster: Cluster, job: Path, store: Path, *options: str) -> None:
        self.store = store
        self._environment = cluster.environment
        self._words = [sys.executable, "-m", "ccltui", "index", str(job), "--store", str(store)]
        self._words += options

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._words,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def records(self) -> int:
        """Number of files with a result so far."""
        return len(list(self.store.glob("index/*/files/*")))

    def await_records(self, number: int) -> None:
        deadline = time.monotonic() + 90
        while self.records() < number:
            assert time.monotonic() < deadline, f"{self.records()} records"
            time.sleep(0.002)


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_an_array_survives_a_killed_task_a_drained_node_and_a_killed_command(
    four_nodes: Cluster,
    job: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    drain: Callable[[str], None],
) -> None:
    command = Command(
        four_nodes,
        job,
        tmp_path / "store",
        *("--engine", "slurm", "--ranks-per-task", str(PER_TASK)),
        "--sbatch=--cpus-per-task=64",  # two tasks at a time on each node
    )
    first = command.start()
    await_true(lambda: command.records() > 0, seconds=60, what="a file that was read")
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    drain(four_nodes.plan.nodes[3].name)
    killed: list[int] = []
    while not killed and command.records() < RANKS:
        killed = readers(four_nodes, "index_task")[-1:]
        kill(killed)

    second = command.start()
    out, err = second.communicate(timeout=120)

    assert killed
    assert (second.returncode, out) == (0, ""), err
    assert columns(command.store) == expected


def test_dask_survives_a_killed_worker_a_drained_node_and_a_killed_command(
    four_nodes: Cluster,
    job: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    drain: Callable[[str], None],
) -> None:
    pytest.importorskip("dask_jobqueue")
    site = tmp_path / "site.sh"
    site.write_text("SITE_ACCOUNT=m1234\nSITE_ANALYSIS_QOS=debug\n")
    command = Command(
        four_nodes,
        job,
        tmp_path / "store",
        *("--engine", "dask", "--site", str(site), "--jobs", str(WORKERS)),
    )
    first = command.start()
    command.await_records(1)
    os.killpg(first.pid, signal.SIGKILL)  # its scheduler goes with it, and then its workers
    first.communicate()
    stored = command.records()

    second = command.start()
    command.await_records(min(stored + 1, RANKS))
    drain(four_nodes.plan.nodes[0].name)
    workers = readers(four_nodes, "dask")
    kill(workers[-1:])
    out, err = second.communicate(timeout=120)

    assert workers
    assert (second.returncode, out) == (0, ""), err
    assert columns(command.store) == expected


@pytest.mark.alone
def test_an_array_costs_little_more_than_one_process_here(
    four_nodes: Cluster, job: Path, tmp_path: Path
) -> None:
    if not four_nodes.has_accounts:
        pytest.skip("no accounting of CPU time: slurmdbd or MariaDB is not installed")
    spent: dict[str, list[float]] = {"local": [], "slurm": []}
    for _ in range(2):
        for engine, found in spent.items():
            options = ("--engine", engine, *(("--jobs", "1") if engine == "local" else ()))
            found.append(cost(four_nodes, job, tmp_path / "store", options)[0])
    print(f"CPU-s: {spent}")

    assert min(spent["slurm"]) < OVERHEAD * min(spent["local"])
