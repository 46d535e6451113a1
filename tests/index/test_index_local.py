"""Index a job with processes of this machine, and what the command says of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ccltui.commands import index_command
from ccltui.demo import Spec, write_job
from ccltui.exit_codes import INPUT, INTERRUPTED, OK, USAGE
from ccltui.index import index_file as index_file_module
from ccltui.index.index_file import MAX_ATTEMPTS, index_file
from ccltui.index.index_state import IndexState, Plan, PlannedFile
from ccltui.index.work_division import planned_files
from ccltui.parsers.ingest.rank_worker import Outcome
from ccltui.parsers.job import open_job, start_job
from ccltui.parsers.store.column_store import Store
from ccltui.process import run as run_process

pytestmark = pytest.mark.usefixtures("copied_processes")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("index") / "job"
    write_job(directory, Spec(tp=2, pp=1, dp_shard=2, gpus_per_node=2, steps=2, stragglers=()))
    return directory


@pytest.fixture
def job(traces: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "job"
    shutil.copytree(traces, copy)
    return copy


def columns(store: Path) -> dict[str, bytes]:
    """Return the bytes of every file of every entry, without the state of the index."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.glob("*/*"))
        if path.is_file() and path.parent.name != "index"
    }


def test_the_store_is_that_of_opening_the_job(job: Path, tmp_path: Path) -> None:
    assert index_command.run([str(job), "--store", str(tmp_path / "index")]) == OK
    open_job(job, cache_dir=tmp_path / "opened")

    assert len(columns(tmp_path / "index")) == 8
    assert columns(tmp_path / "index") == columns(tmp_path / "opened")


def test_what_is_indexed_opens_without_reading(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    index_command.run([str(job), "--store", str(store)])
    moved = job.rename(tmp_path / "moved")
    monkeypatch.setattr("ccltui.parsers.ingest.load._read_here", None)

    opened = open_job(moved, cache_dir=store)

    assert [trace.rank for trace in opened.ranks] == [0, 1, 2, 3]
    assert opened.failures == ()


def test_directories_whose_names_are_no_text(traces: Path, tmp_path: Path) -> None:
    job = Path(os.fsdecode(os.fsencode(tmp_path) + b"/job\xff"))
    shutil.copytree(traces, job)
    store = Path(os.fsdecode(os.fsencode(tmp_path) + b"/store\xff"))

    assert index_command.run([str(job), "--store", str(store)]) == OK
    assert len(columns(store)) == 8


def test_a_second_run_reads_nothing(
    job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = [str(job), "--store", str(tmp_path / "store")]
    index_command.run(options)
    capfd.readouterr()

    assert index_command.run(options) == OK
    assert "4 files: 4 done before, 0 to read" in capfd.readouterr().err


def test_only_what_is_missing_is_read(
    job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    index_command.run([str(job), "--store", str(store)])
    shutil.rmtree(next(path.parent for path in store.glob("*/columns.bin")))
    capfd.readouterr()

    assert index_command.run([str(job), "--store", str(store)]) == OK
    assert "3 done before, 1 to read" in capfd.readouterr().err
    assert len(columns(store)) == 8


def test_damaged_files_are_one_table_and_the_rest_is_indexed(
    job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = job / "kineto_trace_2.json.gz"
    damaged.write_bytes(b"")
    store = tmp_path / "store"

    assert index_command.run([str(job), "--store", str(store)]) == OK

    told = capfd.readouterr()
    header, row = told.out.splitlines()
    assert header.split() == ["rank", "file", "attempts", "host", "reason"]
    assert "kineto_trace_2.json.gz" in row
    assert "3 of 4 files in the store; 3 ranks" in told.err


def test_a_directory_without_a_readable_rank_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "rank0.json").write_text("")

    assert index_command.run([str(tmp_path / "job"), "--store", str(tmp_path / "s")]) == INPUT
    assert "rank0.json" in capfd.readouterr().err


def test_columns_above_the_limit_are_reported(
    job: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCLTUI_STORE_LIMIT", "1K")

    assert index_command.run([str(job), "--store", str(tmp_path / "store")]) == OK
    assert "more than the limit of the store" in capfd.readouterr().err
    assert len(columns(tmp_path / "store")) == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "mesos"], "'mesos' is no engine: local, slurm, dask, tcp://HOST:PORT"),
        (["--site", "generic"], "--site is for --engine slurm and dask"),
        (["--no-cache"], "--no-cache"),
        (["--store-limit", "much"], "'much' is not a size above 0"),
    ],
)
def test_wrong_command_lines(
    job: Path, options: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_process(index_command.run, [str(job), *options]) == USAGE
    assert words in capfd.readouterr().err


def test_ranks_that_come_later_are_followed(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, store = tmp_path / "job", tmp_path / "store"
    job.mkdir()
    names = sorted(path.name for path in traces.iterdir())
    for name in names[:2]:
        shutil.copy2(traces / name, job)
    monkeypatch.setattr(index_command, "_FOLLOW_S", 0.1)

    def write_others() -> None:
        for name in names[2:]:
            shutil.copy2(traces / name, job)

    later = threading.Timer(1, write_others)
    later.start()
    try:
        assert index_command.run([str(job), "--store", str(store), "--follow"]) == OK
    finally:
        later.join()
    assert len(columns(store)) == 8


def test_ctrl_c_names_what_is_not_read(
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    @contextlib.contextmanager
    def interrupted(*_signals: int) -> Iterator[Callable[[], bool]]:
        yield lambda: True

    monkeypatch.setattr(index_command, "stoppable", interrupted)

    assert index_command.run([str(job), "--store", str(tmp_path / "store")]) == INTERRUPTED
    told = capfd.readouterr()
    assert told.out == ""
    assert "0 of 4 files in the store; 4 files not read yet (ranks 0-3)" in told.err


@pytest.fixture
def prepared(job: Path, tmp_path: Path) -> tuple[IndexState, PlannedFile, Path]:
    """A state with the plan of one file, that file, and the store."""
    store = tmp_path / "store"
    files, _ = planned_files(start_job(job).capture.files[:1], Store(store))
    state = IndexState(tmp_path / "state")
    state.prepare(Plan(bytes(job), bytes(store), tuple(files), ((0,),)))
    return state, files[0], store


def test_a_file_whose_reader_is_killed_each_time_is_lost(
    prepared: tuple[IndexState, PlannedFile, Path],
) -> None:
    state, planned, store = prepared
    for _ in range(MAX_ATTEMPTS):
        state.begin(planned.key, MAX_ATTEMPTS)

    record = index_file(state, planned, store)

    assert record is not None
    assert record.is_lost
    assert record.error is not None
    assert "was killed 3 times" in record.error
    assert state.record(planned.key) == record


def test_a_file_that_changes_meanwhile_is_lost(
    prepared: tuple[IndexState, PlannedFile, Path],
) -> None:
    state, planned, store = prepared
    os.utime(planned.source(), ns=(1, 1))

    record = index_file(state, planned, store)

    assert record is not None
    assert record.is_lost
    assert "changed while the job was indexed" in (record.error or "")


def test_a_stopped_reading_leaves_no_record_and_no_attempt(
    prepared: tuple[IndexState, PlannedFile, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, planned, store = prepared
    stop = threading.Event()

    def stopped(*_: object) -> Outcome:
        stop.set()
        return Outcome(error="cancelled")

    monkeypatch.setattr(index_file_module, "read_one", stopped)

    assert index_file(state, planned, store, stop) is None
    assert state.record(planned.key) is None
    assert state.begin(planned.key, 1) == 1


def test_one_record_serves_all_tasks(prepared: tuple[IndexState, PlannedFile, Path]) -> None:
    state, planned, store = prepared
    first = index_file(state, planned, store)

    assert first is not None
    assert first.error is None
    assert first.ranks == (0,)
    assert index_file(state, planned, store) == first
