"""A run of ``ccltui index`` as other commands and the explorer see it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccltui.commands.index_command import IndexRun
from ccltui.demo import Spec, write_job
from ccltui.index.index_state import IndexState, OpenOptions
from ccltui.index.slurm_jobs import announced, running_index
from ccltui.index.work_division import EngineEvent, Work
from ccltui.parsers.job import start_job
from ccltui.tui.engine.loader import run_load
from ccltui.tui.engine.messages import Fact, FilesRead, LoadEnded, LoadProgress
from ccltui.tui.options import ExplorerOptions


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("running") / "job"
    write_job(directory, Spec(tp=1, steps=2, layers=2, gpus_per_node=2, stragglers=()))
    return directory


@pytest.fixture
def state(job: Path, tmp_path: Path) -> IndexState:
    """The state of a run that read nothing yet: its command was killed."""
    store = tmp_path / "store"
    index(job, store)
    found = IndexState.of(store, str(job), start_job(job).capture.name)
    plan = found.plan()
    for planned in plan.files:
        found.forget(planned.key)
    found.forget_job()
    return found


def index(job: Path, store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ccltui", "index", str(job), "--store", str(store), *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_none_runs_where_none_was_started_and_after_it_has_ended(job: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"

    assert running_index(start_job(job), str(job), store) is None
    assert index(job, store).returncode == 0
    assert running_index(start_job(job), str(job), store) is None
    done = index(job, store, "--status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ccltui: {job}: no ccltui index runs\n"


def test_a_run_elsewhere_is_shown_with_its_progress_and_cancelled(
    job: Path, tmp_path: Path, state: IndexState
) -> None:
    store = tmp_path / "store"
    plan = state.plan()
    with announced(state, "local"):
        deadline = time.monotonic() + 10
        while state.waiting_command() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        shown = index(job, store, "--status")
        cancelled = index(job, store, "--cancel")

        assert shown.returncode == 0
        assert f"(local, process {os.getpid()} on " in shown.stderr
        assert f"0 of {len(plan.files)} files, 0.0 of " in shown.stderr
        assert cancelled.returncode == 0
        assert state.is_cancelled
        assert running_index(start_job(job), str(job), store) is None


def test_a_command_that_was_killed_no_longer_counts(state: IndexState) -> None:
    state.announce("local")
    assert state.waiting_command() is not None
    old = time.time() - IndexState.SILENT_S - 1
    os.utime(state.directory / "waiting", (old, old))

    assert state.waiting_command() is None


def test_the_explorer_waits_for_a_run_and_opens_what_it_stored(
    job: Path, tmp_path: Path, state: IndexState
) -> None:
    store = tmp_path / "store"
    state.announce("local")
    facts: list[Fact] = []

    def post(fact: Fact) -> None:
        facts.append(fact)
        if isinstance(fact, LoadProgress) and fact.elsewhere:
            state.withdraw_announcement()

    run_load(str(job), ExplorerOptions(cache_dir=store), post, lambda: False)

    told = [one.elsewhere for one in facts if isinstance(one, LoadProgress) and one.elsewhere]
    assert len(told) == 1
    assert "0 of " in told[0]
    first = next(n for n, one in enumerate(facts) if isinstance(one, FilesRead))
    assert facts.index(next(f for f in facts if isinstance(f, LoadProgress))) < first
    assert facts[-1] == LoadEnded(stopped=False)


def test_a_local_run_ends_when_another_command_cancels_it(job: Path, tmp_path: Path) -> None:
    ended: list[bool] = []

    class Waiting:
        name = "waiting"
        reduces = True

        def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
            work.state.cancel()
            deadline = time.monotonic() + 10
            while not cancelled() and time.monotonic() < deadline:
                time.sleep(0.05)
            ended.append(cancelled())
            return iter(())

    run = IndexRun(start_job(job), str(job), tmp_path / "store", OpenOptions())
    assert list(run.run(Waiting(), lambda: False)) == []

    assert ended == [True]
    assert run.is_cancelled
    assert run.has_lost
