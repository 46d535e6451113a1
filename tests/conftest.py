"""Fixtures shared by all layers."""

from __future__ import annotations

import fcntl
import gc
import itertools
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path

import hypothesis
import pytest
import warm_processes
from once import MakeOnce, make_once

from ccltui import slow_path
from ccltui.parsers.machine_limits import available_memory

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = pytest.StashKey[dict[str, str]]()
RUN_FOLDER = pytest.StashKey[Path]()
NUMBERS = itertools.count()
NEEDED_ROOM = 8 << 30
"""Bytes of memory that must be free for files to be there: a run writes 3 GB."""

# An example may take any time where other programs use the CPUs. Few examples find what is wrong
# in nearly all of these small inputs; the rest is for a night: make fuzz-nightly.
hypothesis.settings.register_profile("ccltui", deadline=None, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("ccltui")

# A shell without job control starts commands in the background with ctrl+c ignored, nohup those
# that outlive a terminal, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

ABSENT = slow_path.missing_modules()
if ABSENT:
    # What commands say of it would be in every expected standard error; one file tests that.
    os.environ["CCLTUI_ACCEL"] = "0"


def pytest_configure(config: pytest.Config) -> None:
    """Give the files of tests, and what programs keep for their user, a folder of this run.

    Workers inherit it, so the first process makes it. Tests write gigabytes: `pytest_sessionfinish`
    removes it where all of them passed. It goes as a whole, not folder by folder: two tests of one
    name never get the same path, which caches of one process would take for the same file.
    """
    gc.disable()  # until all tests are collected: hardly anything is freed, and passes take a tenth
    if hasattr(config, "workerinput"):
        return
    place = folder_in_memory()
    folder = Path(tempfile.mkdtemp(prefix="ccltui-tests-", dir=place))
    hold(folder)
    config.stash[RUN_FOLDER] = folder
    if config.option.basetemp is None:
        config.option.basetemp = str(folder / "files")
    for name in ("XDG_CACHE_HOME", "IPYTHONDIR", "DASK_TEMPORARY_DIRECTORY"):
        os.environ[name] = str(folder / "user" / name.lower())


def folder_in_memory() -> Path | None:
    """Return a folder in memory for the files of a run; None where that has no room.

    A run makes and removes 80,000 files, and a file system that tells its disk
    of each (ext4 with ``discard``) takes 2 ms to remove one. Some are scripts, which tests run.
    """
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return None
    remove_earlier_runs(memory)
    room = min(shutil.disk_usage(memory).free, available_memory())
    executable = not os.statvfs(memory).f_flag & os.ST_NOEXEC
    return memory if room > NEEDED_ROOM and executable else None


def remove_earlier_runs(memory: Path) -> None:
    """Remove what failed runs left in memory: it is looked at until the next run begins.

    Folders of clusters too, which are held as `hold` does (tests/slurm/cluster.py).
    """
    for folder in (*memory.glob("ccltui-tests-*"), *memory.glob("ccltui-slurm-*")):
        try:
            if time.time() - folder.stat().st_mtime < 60:  # another run may be about to hold it
                continue
            held = hold(folder)
        except OSError:  # of a run that goes on, or of somebody else
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def hold(folder: Path) -> int:
    """Lock the folder of a run for as long as its first process lives.

    The number of a process would not tell: containers can share the memory but no processes.

    Raises:
        OSError: another process holds it, or it belongs to somebody else.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove what passed tests wrote; what a failed one wrote stays to be looked at."""
    folder = session.config.stash.get(RUN_FOLDER, None)
    if folder is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_report_header() -> str:
    """Say which code is tested: without a compiler the general one alone."""
    if not ABSENT:
        return "ccltui: every compiled module is built"
    return f"ccltui: not built: {', '.join(ABSENT)}; tests of compiled code are skipped"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers more than CPUs: tests of screens and terminals wait half of their time.

    A worker more costs 8 CPU-s to import and collect the tests; one that waits leaves a CPU idle.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return 2 + (len(affinity(0)) if affinity else os.cpu_count() or 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start long tests first: one that starts last leaves all workers but its own without tests.

    The order is kept otherwise, so that fixtures of a module are made once.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Leave modules and tests out of every later garbage collection: they stay until the end.

    Collections are rarer too: at the default of 700 new objects they are 4 % of the CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def settings() -> dict[str, str]:
    """The environment variables that change what ccltui does."""
    return {name: value for name, value in os.environ.items() if name.startswith("CCLTUI_")}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Note the settings before anything of a test has run."""
    item.stash[SETTINGS] = settings()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Refuse a test that leaves other settings to the ones after it."""
    result = yield
    left, found = settings(), item.stash[SETTINGS]
    if left != found:
        for name in left.keys() | found.keys():
            os.environ.pop(name, None)
        os.environ |= found
        pytest.fail(f"settings were left changed: {dict(left.items() ^ found.items())}")
    return result


def shared_directory() -> Path:
    """Directory of public traces and golden numbers, named by CCLTUI_SHARED."""
    return Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The public traces, or a visible skip where they are absent."""
    directory = shared_directory()
    if not (directory / "traces").is_dir():
        pytest.skip(f"no public traces in {directory} (set CCLTUI_SHARED)")
    return directory


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the caches of all tests.

    Of its own, because pytest lists a folder to number the next one in it: 2 ms among thousands.
    """
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """A way to fill a folder once for all workers of a run; no test may change what is in it."""
    files = tmp_path_factory.getbasetemp()  # of this worker, if there are several
    place = (files.parent if "PYTEST_XDIST_WORKER" in os.environ else files) / "once"
    place.mkdir(exist_ok=True)
    return partial(make_once, place)


@pytest.fixture
def copied_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start what computes and reads as copies of one process: see ``warm_processes``."""
    monkeypatch.setattr(multiprocessing, "get_context", warm_processes.get_context)


@pytest.fixture(scope="session", autouse=True)
def unflushed() -> Iterator[None]:
    """Do not wait for disks: no test has a machine lose its power, and a job writes many files.

    Tests of what the store flushes put their own function there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True)
def own_cache(caches: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or fills the user's column cache."""
    directory = caches / str(next(NUMBERS))
    directory.mkdir()
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(directory))
    monkeypatch.delenv("CCLTUI_STORE", raising=False)
    monkeypatch.delenv("CCLTUI_STORE_LIMIT", raising=False)
    return directory
