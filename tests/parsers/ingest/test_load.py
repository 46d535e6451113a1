"""Worker processes, progress, cancellation, and what a bad file costs the others: nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.ingest.load import Failed, Loaded, LoadEvent, Progress, Reading, load
from ccltui.parsers.ingest.worker_pool import Executor, WorkerPool
from ccltui.parsers.job import Job, open_job, start_job


def write_rank(directory: Path, rank: int, events: int = 3, world_size: int = 4) -> Path:
    body = [
        {"ph": "X", "cat": "kernel", "name": f"k{i}", "pid": 0, "tid": 7, "ts": i, "dur": 1}
        for i in range(events)
    ]
    document = {
        "traceEvents": body,
        "distributedInfo": {"rank": rank, "world_size": world_size},
    }
    path = directory / f"rank{rank}_trace.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(3):
        write_rank(folder, rank)
    return folder


def results(events: list[LoadEvent]) -> list[tuple[str, str]]:
    return sorted((type(e).__name__, e.path) for e in events if not isinstance(e, Progress))


NAMES = [f"rank{rank}_trace.json" for rank in range(3)]


def test_workers_load_every_rank_and_the_second_time_maps_them(directory: Path) -> None:
    job = start_job(directory)

    first = list(load(job.capture))
    second = list(load(job.capture))

    assert results(first) == results(second) == [("Loaded", name) for name in NAMES]
    assert [e.cached for e in first if isinstance(e, Loaded)] == [False] * 3
    assert [e.cached for e in second if isinstance(e, Loaded)] == [True] * 3


def test_ranks_share_the_facts_in_which_they_agree(directory: Path) -> None:
    for _ in range(2):  # from the files, then from the store
        first, second, third = open_job(directory).ranks
        assert [trace.tracks for trace in (second, third)] == [first.tracks] * 2
        assert first.tracks
        assert first.tracks is second.tracks is third.tracks
        assert first.label != second.label


def test_small_captures_may_be_read_in_this_process(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ccltui.parsers.ingest.worker_pool.Executor", None)

    assert results(list(load(start_job(directory).capture, inline=True))) == [
        ("Loaded", name) for name in NAMES
    ]


@pytest.mark.parametrize("inline", [True, False])
def test_a_bad_file_costs_no_other(directory: Path, inline: bool) -> None:
    job = start_job(directory)
    (directory / NAMES[1]).write_text("<html>")

    events = list(load(job.capture, inline=inline))

    assert results(events) == [
        ("Failed", NAMES[1]),
        ("Loaded", NAMES[0]),
        ("Loaded", NAMES[2]),
    ]
    failure = next(e for e in events if isinstance(e, Failed))
    assert failure.error.startswith(f"{NAMES[1]}: no list of trace events found")


def test_a_file_that_vanishes_is_named(directory: Path) -> None:
    job = start_job(directory)
    (directory / NAMES[0]).unlink()

    failures = [e for e in load(job.capture) if isinstance(e, Failed)]

    assert [f.error for f in failures] == [
        f"{NAMES[0]}: cannot be read (No such file or directory)"
    ]


def is_worker(process: Path) -> bool:
    """Whether a process runs a worker's program: one that is being started still runs this one.

    It has a copy of all descriptors of this process until then.
    """
    return b"spawn_main" in (process / "cmdline").read_bytes()


def test_a_killed_worker_takes_only_its_own_file(directory: Path) -> None:
    """One file is a pipe that never ends: its worker is found by what it holds open."""
    job = start_job(directory)
    trap = directory / NAMES[1]
    trap.unlink()
    os.mkfifo(trap)
    holder = os.open(trap, os.O_RDWR)  # the key's first read of the pipe must not block for ever
    stop = threading.Event()

    def kill_readers() -> None:
        while not stop.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    held = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
                    is_reader = str(trap) in held and is_worker(process)
                except OSError:
                    continue
                if is_reader:
                    os.kill(int(process.name), signal.SIGKILL)
            time.sleep(0.05)

    killer = threading.Thread(target=kill_readers)
    killer.start()
    try:
        scratch = directory.parent / "columns"
        scratch.mkdir()
        reading = Reading((scratch,), 2, lambda: False)
        events = list(reading.run(job.capture.files, None))
    finally:
        stop.set()
        killer.join()
        os.close(holder)

    assert results(events) == [("Failed", NAMES[1]), ("Loaded", NAMES[0]), ("Loaded", NAMES[2])]
    failure = next(e for e in events if isinstance(e, Failed))
    assert "was killed (out of memory?)" in failure.error


@pytest.mark.parametrize("is_started", [False, True])
def test_a_worker_that_dies_while_another_starts_costs_no_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch, is_started: bool
) -> None:
    """It dies before the other one is started, or before the pool knows of the other one."""
    pools: list[Executor] = []
    started: list[BaseProcess] = []
    make, start = Executor.__init__, BaseProcess.start

    def noted(pool: Executor, *arguments: Any, **options: Any) -> None:
        pools.append(pool)
        make(pool, *arguments, **options)

    def started_late(process: BaseProcess) -> None:
        started.append(process)
        if is_started:
            start(process)
        if len(started) == 2:
            started[0].kill()
            broken_until = time.monotonic() + 10
            # Newer versions of Python break no pool meanwhile.
            while sys.version_info < (3, 12) and time.monotonic() < broken_until:
                if vars(pools[0])["_call_queue"]._reader.closed:
                    break
                time.sleep(0.001)
        if not is_started:
            start(process)

    monkeypatch.setattr(Executor, "__init__", noted)
    monkeypatch.setattr(BaseProcess, "start", started_late)
    scratch = directory.parent / "columns"
    scratch.mkdir()

    events = list(
        Reading((scratch,), 2, lambda: False).run(start_job(directory).capture.files, None)
    )

    assert results(events) == [("Loaded", name) for name in NAMES]
    assert not [process for process in started if process.is_alive()]


def test_tasks_of_a_pool_that_nobody_takes_apart_any_more_are_failed() -> None:
    """The thread that does so may fail itself, where a task is begun meanwhile."""
    pool, left = Executor(1, mp_context=multiprocessing.get_context("spawn")), Future[None]()
    vars(pool)["_pending_work_items"][0] = SimpleNamespace(future=left)
    vars(pool)["_broken"] = "a process has died"

    pool._give_up()

    with pytest.raises(BrokenProcessPool, match="a process has died"):
        left.result(0)
    pool.shutdown()


def test_progress_is_in_bytes_of_the_file(tmp_path: Path) -> None:
    path = write_rank(tmp_path, 0, events=50_000)

    seen = [e for e in load(start_job(tmp_path).capture) if isinstance(e, Progress)]

    assert seen
    assert {e.total_bytes for e in seen} == {path.stat().st_size}
    done = [e.done_bytes for e in seen]
    assert done == sorted(done)
    assert done[-1] <= path.stat().st_size


def test_cancelling_keeps_what_is_there(tmp_path: Path) -> None:
    for rank in range(4):
        write_rank(tmp_path, rank, events=3 if rank else 60_000)
    write_rank(tmp_path, 9, events=60_000)
    job = start_job(tmp_path)
    stop = threading.Event()
    kept: list[LoadEvent] = []

    for event in load(job.capture, jobs=1, cancelled=stop.is_set):
        kept.append(event)
        if isinstance(event, Loaded):
            stop.set()

    assert sum(isinstance(event, Loaded) for event in kept) == 1


def test_a_pool_that_is_awake_reads_what_the_store_lacks_and_ends(directory: Path) -> None:
    job = start_job(directory)

    for _ in range(2):  # the second time nothing is left to read
        pool = WorkerPool.awake()
        assert results(list(load(job.capture, pool=pool))) == [("Loaded", name) for name in NAMES]
        with pytest.raises(RuntimeError, match="is closed"):
            list(pool.run(job.capture.files, (), 1, lambda: False))


def test_a_cache_that_cannot_be_written_costs_speed_only(directory: Path) -> None:
    blocked = directory.parent / "file"
    blocked.write_text("")
    job = start_job(directory)

    for inline in (False, True):
        events = list(load(job.capture, cache_dir=blocked / "cache", inline=inline))
        assert results(events) == [("Loaded", name) for name in NAMES]
        kept = next(e for e in events if isinstance(e, Loaded)).trace
        assert kept.group("gpu").start_ns.tolist() == [0, 1000, 2000]


def test_a_script_without_a_guard_may_load(directory: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from ccltui.parsers.ingest.load import load\n"
        "from ccltui.parsers.job import start_job\n"
        "events = list(load(start_job(sys.argv[1]).capture))\n"
        "print(sorted(type(event).__name__ for event in events))\n"
    )

    ran = subprocess.run(
        [sys.executable, script, directory], capture_output=True, text=True, check=False
    )

    assert ran.stderr == ""
    assert ran.stdout.count("Loaded") == 3


def test_a_job_knows_its_world_and_what_is_missing(directory: Path) -> None:
    job = open_job(directory)

    assert [trace.label for trace in job.ranks] == ["0", "1", "2"]
    assert [trace.rank_source for trace in job.ranks] == ["distributedInfo"] * 3
    assert (job.world_size, tuple(job.missing_ranks), job.origin_ns) == (4, (3,), 0)


def test_the_file_itself_overrules_its_name_and_a_map(directory: Path) -> None:
    (directory / NAMES[2]).rename(directory / "rank7.json")

    job = open_job(directory, rank_map={"rank7.json": 5})

    assert [trace.rank for trace in job.ranks] == [0, 1, 2]


def test_without_a_stated_rank_the_map_decides_then_the_name(tmp_path: Path) -> None:
    event = '[{"ph":"X","name":"a","ts":%d,"dur":1}]'
    for index, name in enumerate(["rank4.json", "other.json", "mapped.json"]):
        (tmp_path / name).write_text(event % index)

    job = open_job(tmp_path, rank_map={"mapped.json": 2})

    assert [(t.rank, t.rank_source, t.label) for t in job.ranks] == [
        (2, "rank map", "2"),
        (4, "file name", "4"),
        (None, "none", "other.json"),
    ]


def test_two_files_that_claim_one_rank_are_both_shown(tmp_path: Path) -> None:
    write_rank(tmp_path, 0).rename(tmp_path / "a.json")
    write_rank(tmp_path, 0, events=5).rename(tmp_path / "b.json")
    write_rank(tmp_path, 1)

    job = open_job(tmp_path)

    assert [t.label for t in job.ranks] == ["0 (a.json)", "0 (b.json)", "1"]
    assert job.conflicting_ranks == (0,)
    assert any("rank 0 is claimed by a.json" in note.message for note in job.notes)


def test_a_cut_file_takes_the_base_time_of_the_others(tmp_path: Path) -> None:
    base = 1_700_000_000_000_000_000
    event = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%s,"dur":1}'
    whole = '{"traceEvents":[%s],"distributedInfo":{"rank":%d},"baseTimeNanoseconds":%d}'
    (tmp_path / "rank0.json").write_text(whole % (event % 5, 0, base))
    (tmp_path / "rank1.json").write_text(f'{{"traceEvents":[{event % 6},')
    (tmp_path / "rank2.json").write_text(f'{{"traceEvents":[{event % "1700000000000007"},')

    job = open_job(tmp_path)

    assert [trace.first_ns for trace in job.ranks] == [base + 5000, base + 6000, base + 7000]
    assert [[note.code for note in trace.notes] for trace in job.ranks] == [
        [],
        ["truncated_trace", "assumed_base"],
        ["truncated_trace"],
    ]


def test_order_of_arrival_does_not_matter(directory: Path) -> None:
    job = start_job(directory)
    traces = [e.trace for e in load(job.capture, inline=True) if isinstance(e, Loaded)]

    def assembled(order: list[int]) -> Job:
        result = job
        for index in order:
            result = result.with_rank(traces[index])
        return result

    assert [t.label for t in assembled([0, 1, 2]).ranks] == ["0", "1", "2"]
    assert [t.label for t in assembled([2, 0, 1, 0]).ranks] == ["0", "1", "2"]


def test_a_path_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="absent"):
        open_job(tmp_path / "absent")
