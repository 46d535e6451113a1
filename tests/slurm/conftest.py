"""One real Slurm for all tests that ask for it."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from cluster import Cluster, private_directory
from presence import absent, why_not

from ccltui.demo import Spec, write_job


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("slurm")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Let tests of several workers run at once, but those that measure CPU time alone.

    A neighbour on the other half of a core makes the same work cost half as much again.
    """
    if not hasattr(item.config, "workerinput"):
        return (yield)
    folder = Path(item.config.getoption("basetemp")).parent  # of the folders of all workers
    with _locked(folder / "room", shared=item.get_closest_marker("alone") is None):
        return (yield)


@contextlib.contextmanager
def _locked(path: Path, *, shared: bool) -> Iterator[None]:
    """Hold a lock of a file; who waits for it is not overtaken by who asks later."""
    with path.open("w") as room, path.with_suffix(".queue").open("w") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@pytest.fixture(scope="session")
def slurm_installed() -> None:
    """A visible skip where Slurm cannot run; with CCLTUI_SLURM=require, as in CI, a failure."""
    reason = why_not()
    if reason is not None:
        absent(f"no Slurm: {reason}")


@pytest.fixture(scope="session")
def cluster(slurm_installed: None) -> Iterator[Cluster]:
    """A running cluster of two nodes."""
    with private_directory() as directory:
        running = Cluster(directory)
        running.start()
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="session")
def torch_installed() -> None:
    """A visible skip where this Python has no torch: ``make torch`` installs it."""
    if importlib.util.find_spec("torch") is None:
        absent("no torch here: make torch installs it")


@pytest.fixture(scope="session")
def deepspeed_installed(torch_installed: None) -> None:
    """A visible skip where this Python has no DeepSpeed: only ``make deepspeed-tests`` installs it.

    With CCLTUI_DEEPSPEED=require, as there, a failure.
    """
    if importlib.util.find_spec("deepspeed") is None:
        if os.environ.get("CCLTUI_DEEPSPEED") == "require":
            pytest.fail("no deepspeed here")
        pytest.skip("no deepspeed here: make deepspeed-tests installs it")


@pytest.fixture
def accounting(cluster: Cluster) -> Cluster:
    """The cluster, if it refuses wrong accounts."""
    if not cluster.has_accounts:
        absent("no accounts: slurmdbd or MariaDB is not installed")
    return cluster


@pytest.fixture(scope="session")
def lmod() -> Path:
    """What defines the module command in bash, or a visible skip where it is not installed."""
    path = Path("/usr/share/lmod/lmod/init/bash")
    if not path.exists():
        absent("no module command: lmod is not installed")
    return path


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of a made-up job of four ranks."""
    directory = tmp_path_factory.mktemp("demo") / "job"
    write_job(directory, Spec(tp=1, steps=2, layers=2, gpus_per_node=2, stragglers=()))
    return directory
