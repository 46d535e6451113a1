"""Facts that the loading thread posts for a directory, and their order."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ccltui.parsers.ingest.load
import ccltui.parsers.job
from ccltui.parsers.ingest.load import Failed, LoadEvent, Progress
from ccltui.tui.engine.loader import PERIOD_S, run_load
from ccltui.tui.engine.messages import (
    Fact,
    FilesRead,
    JobOpened,
    LoadEnded,
    LoadProgress,
    OpenFailed,
    log_line,
)
from ccltui.tui.options import ExplorerOptions


def write_rank(directory: Path, rank: int) -> None:
    """A trace of one kernel."""
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    info = {"rank": rank, "world_size": 2, "backend": "nccl"}
    document = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": [kernel]}
    (directory / f"rank{rank}.json").write_text(json.dumps(document), encoding="utf-8")


def no() -> bool:
    return False


def slow_clock() -> Callable[[], float]:
    """A clock on which everything takes so long that it is posted at once."""
    return itertools.count(0, PERIOD_S).__next__


@pytest.fixture
def trace_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir()
    for rank in (0, 1):
        write_rank(directory, rank)
    return directory


def test_a_directory_is_opened_and_its_ranks_are_posted_one_by_one(trace_directory: Path) -> None:
    facts: list[Fact] = []

    run_load(str(trace_directory), ExplorerOptions(jobs=1), facts.append, no, clock=slow_clock())

    assert isinstance(facts[0], JobOpened)
    assert [file.path for file in facts[0].job.capture.files] == ["rank0.json", "rank1.json"]
    loaded = [fact for fact in facts if isinstance(fact, FilesRead)]
    assert [len(fact.job.ranks) for fact in loaded] == [1, 2]
    assert facts[-1] == LoadEnded(stopped=False)


def test_ranks_that_are_loaded_within_a_moment_are_posted_together(tmp_path: Path) -> None:
    for rank in range(5):
        write_rank(tmp_path, rank)
    facts: list[Fact] = []

    run_load(str(tmp_path), ExplorerOptions(jobs=1), facts.append, no, clock=lambda: 0.0)

    loaded = [fact for fact in facts if isinstance(fact, FilesRead)]
    assert [len(fact.job.ranks) for fact in loaded] == [1, 5]
    assert [len(fact.problems) for fact in loaded] == [1, 4]
    assert facts[-1] == LoadEnded(stopped=False)


def test_beginnings_of_long_files_are_posted_before_the_whole_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ccltui.parsers.ingest.load, "_LONG_BYTES", 1000)
    kernel = '{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":%d,"dur":2}'
    body = ",".join(kernel % number for number in range(50_000))
    for rank in (0, 1):
        info = f'"distributedInfo":{{"rank":{rank},"world_size":2}}'
        (tmp_path / f"rank{rank}.json").write_text(f'{{{info},"traceEvents":[{body}]}}')
    facts: list[Fact] = []

    run_load(str(tmp_path), ExplorerOptions(jobs=1), facts.append, no, clock=slow_clock())

    loaded = [fact for fact in facts if isinstance(fact, FilesRead)]
    whole = [[trace.read_share == 1 for trace in fact.job.ranks] for fact in loaded]
    assert whole == [[False], [False, False], [True, False], [True, True]]
    begun = loaded[1].job.ranks[0].group("gpu")
    assert 1000 < len(begun) < 50_000
    assert begun.start_ns[:3].tolist() == [0, 1000, 2000]


def test_a_missing_path_is_reported() -> None:
    facts: list[Fact] = []

    run_load("/nowhere/at/all", ExplorerOptions(), facts.append, no)

    assert facts == [OpenFailed("/nowhere/at/all: no such file or directory")]


def test_progress_is_posted_four_times_a_second_at_most(
    trace_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def clock() -> float:
        return now

    def events(*_: object, **__: object) -> Iterator[LoadEvent]:
        nonlocal now
        for done in range(100):
            now += PERIOD_S / 10
            yield Progress("rank0.json", done, 100)
            yield Progress("rank1.json", done, 100)
        yield Failed("rank1.json", "rank1.json: truncated")

    monkeypatch.setattr(ccltui.parsers.job, "load", events)
    facts: list[Fact] = []

    run_load(str(trace_directory), ExplorerOptions(), facts.append, no, clock=clock)

    told = [fact for fact in facts if isinstance(fact, LoadProgress)]
    assert 10 <= len(told) <= 11
    assert told[-1].done_bytes["rank1.json"] >= 90
    (failed,) = [fact for fact in facts if isinstance(fact, FilesRead)]
    assert failed.problems == {"rank1.json": "rank1.json: truncated"}
    assert failed.job.failures[0].path == "rank1.json"


def test_the_log_names_the_files_that_were_read_and_why_others_were_not(
    trace_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def events(*_: object, **__: object) -> Iterator[LoadEvent]:
        yield Failed("rank1.json", "rank1.json: truncated")

    monkeypatch.setattr(ccltui.parsers.job, "load", events)
    facts: list[Fact] = []

    run_load(str(trace_directory), ExplorerOptions(), facts.append, no)

    lines = [log_line(fact) for fact in facts]
    assert lines == ["JobOpened", "FilesRead rank1.json (rank1.json: truncated)", "LoadEnded"]
    whole = FilesRead(facts[0].job, {"a.json": "", "b.json": ""})  # type: ignore[union-attr]
    assert log_line(whole) == "FilesRead a.json b.json"


def test_a_cancelled_load_is_reported_as_stopped(trace_directory: Path) -> None:
    facts: list[Fact] = []

    run_load(str(trace_directory), ExplorerOptions(), facts.append, lambda: True)

    assert [type(fact) for fact in facts] == [JobOpened, LoadEnded]
    assert facts[-1] == LoadEnded(stopped=True)
