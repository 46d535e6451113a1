"""``ccltui index`` on a real Slurm: killed workers, a killed command, a drained node."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from daemons import await_true, processes_with

from ccltui.parsers.discovery.discover import FOLDER
from ccltui.parsers.job import open_job

RANKS = 8
EVENTS = 200_000
"""Of the one large rank: reading it takes long enough to be killed meanwhile."""
LARGE = 5


def _event(number: int) -> str:
    args = f'{{"stream":7,"device":0,"correlation":{number}}}'
    begin = f'{{"ph":"X","cat":"kernel","name":"k{number % 50}","pid":0,"tid":7'
    return f'{begin},"ts":{10 * number}.5,"dur":2,"args":{args}}}'


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight ranks, one of them large."""
    directory = tmp_path_factory.mktemp("index") / "job"
    directory.mkdir()
    for rank in range(RANKS):
        events = ",".join(_event(n) for n in range(EVENTS if rank == LARGE else 40))
        info = json.dumps({"backend": "nccl", "rank": rank, "world_size": RANKS})
        (directory / f"rank{rank}.json").write_text(
            f'{{"schemaVersion":1,"distributedInfo":{info},"traceEvents":[{events}]}}'
        )
    return directory


@pytest.fixture(scope="module")
def expected(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of the store that opening the job here writes."""
    store = tmp_path_factory.mktemp("expected")
    open_job(traces, cache_dir=store)
    return _entries(store)


@pytest.fixture
def drained(cluster: Cluster) -> Iterator[Callable[[str, str], None]]:
    """A function that sets the state of a node; all nodes are resumed in the end."""

    def update(node: str, state: str) -> None:
        reason = ("Reason=test",) if state == "DRAIN" else ()
        done = cluster.run("scontrol", "update", f"NodeName={node}", f"State={state}", *reason)
        assert done.returncode == 0, done.stderr

    yield update
    for node in cluster.plan.nodes:
        cluster.run("scontrol", "update", f"NodeName={node.name}", "State=RESUME")


def _entries(store: Path) -> dict[str, bytes]:
    """The columns in a store; where a directory was listed, its listing is there as well."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.glob("[!.]*/*"))  # without what a killed task was writing
        if path.is_file() and path.parent.name != FOLDER
    }


def _workers(cluster: Cluster, task: int) -> list[int]:
    """Processes of Python that read the files of one task."""
    marks = (f"SLURM_CONF={cluster.plan.conf}", f"SLURM_ARRAY_TASK_ID={task}")
    found = []
    for pid in processes_with(*marks):
        with contextlib.suppress(OSError):  # it has just ended
            if b"index_task" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


class Index:
    """The command on one store."""

    def __init__(self, cluster: Cluster, traces: Path, store: Path) -> None:
        self.store = store
        self._cluster = cluster
        self._command = [sys.executable, "-m", "ccltui", "index", str(traces)]
        self._command += ["--store", str(store), "--engine"]

    def start(self, engine: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, engine, *options],
            env=self._cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, engine: str, *options: str) -> tuple[int, str, str]:
        with self.start(engine, *options) as process:
            out, err = process.communicate(timeout=90)
        return process.returncode, out, err

    def being_read(self) -> set[str]:
        """Keys of files that were begun and have no record."""
        begun = {path.name.partition(".")[0] for path in self.store.glob("index/*/attempts/*")}
        return begun - {path.name for path in self.store.glob("index/*/files/*")}

    def records(self) -> int:
        return len(list(self.store.glob("index/*/files/*")))

    def queued(self) -> list[str]:
        told = self._cluster.run("squeue", "-h", "-r", "-o", "%j %i %t")
        return [line for line in told.stdout.splitlines() if line.startswith("ccltui-index-")]


@pytest.fixture
def index(cluster: Cluster, traces: Path, tmp_path: Path) -> Index:
    return Index(cluster, traces, tmp_path / "store")


def test_an_array_fills_the_store_as_this_machine_does(
    index: Index, expected: dict[str, bytes], tmp_path: Path
) -> None:
    site = tmp_path / "site.sh"
    site.write_text("SITE_ACCOUNT=m1234\nSITE_ANALYSIS_QOS=debug\nSITE_ANALYSIS_PARTITION=extra\n")

    code, out, err = index.run("slurm", "--site", str(site), "--ranks-per-task", "3")

    assert (code, out) == (0, ""), err
    assert "8 files in 3 tasks" in err
    assert "8 of 8 files in the store" in err
    assert _entries(index.store) == expected
    assert index.queued() == []


def test_what_the_site_refuses_is_one_line(
    accounting: Cluster, index: Index, tmp_path: Path
) -> None:
    code, _, err = index.run("slurm", "--sbatch=--account=m9999")

    assert code == 1
    assert "sbatch refused the job: " in err
    assert "Invalid account" in err
    assert index.queued() == []


def test_a_killed_worker_a_drained_node_and_a_killed_command_cost_no_rank(
    cluster: Cluster,
    index: Index,
    expected: dict[str, bytes],
    drained: Callable[[str, str], None],
) -> None:
    for node in cluster.plan.nodes:
        drained(node.name, "DRAIN")
    options = ("--ranks-per-task", "2", "--sbatch=--exclusive")
    first = index.start("slurm", *options)
    await_true(lambda: len(index.queued()) == 5, seconds=30, what="4 tasks and the reduction")
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()

    second = index.start("slurm", *options)
    drained(cluster.plan.nodes[0].name, "RESUME")  # the other one stays drained
    await_true(lambda: bool(_workers(cluster, task=2)), seconds=60, what="task 2")
    workers = _workers(cluster, task=2)
    deadline = time.monotonic() + 60
    while not (index.records() >= 4 and index.being_read()):
        assert time.monotonic() < deadline, index.queued()
        time.sleep(0.002)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    out, err = second.communicate(timeout=90)

    assert workers
    assert (second.returncode, out) == (0, ""), err
    assert "continues with what an earlier command submitted" in err
    assert "submitted again, round 2" in err
    assert _entries(index.store) == expected


def test_ctrl_c_cancels_the_array_and_keeps_what_is_read(
    cluster: Cluster,
    index: Index,
    drained: Callable[[str, str], None],
    expected: dict[str, bytes],
) -> None:
    for node in cluster.plan.nodes:
        drained(node.name, "DRAIN")
    process = index.start("slurm", "--ranks-per-task", "1")
    await_true(lambda: len(index.queued()) == 9, seconds=30, what="8 tasks and the reduction")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    assert out == ""
    assert "8 files not read yet (ranks 0-7)" in err
    await_true(lambda: not index.queued(), seconds=30, what="an empty queue")

    for node in cluster.plan.nodes:
        drained(node.name, "RESUME")
    code, out, err = index.run("slurm", "--ranks-per-task", "8")
    assert (code, out) == (0, ""), err
    assert _entries(index.store) == expected


def test_dask_workers_that_slurm_starts_fill_the_same_store(
    index: Index, expected: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip("dask_jobqueue")
    site = tmp_path / "site.sh"
    site.write_text("SITE_ACCOUNT=m1234\nSITE_ANALYSIS_QOS=debug\n")

    code, out, err = index.run("dask", "--site", str(site), "--jobs", "2")

    assert (code, out) == (0, ""), err
    assert "up to 2 dask workers" in err
    assert _entries(index.store) == expected
