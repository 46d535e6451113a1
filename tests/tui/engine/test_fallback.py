"""Files of nsys are shown instead of traces without device work in the same directory."""

from __future__ import annotations

import json
from pathlib import Path

from nsys_exports import Export

from ccltui.parsers.job import Job
from ccltui.tui.engine.loader import run_load
from ccltui.tui.engine.messages import Fact, FilesRead, JobOpened, LoadEnded
from ccltui.tui.options import ExplorerOptions


def trace(directory: Path, *, kernel: bool) -> None:
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1}
    work = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 3, "dur": 2}
    events = [{**operator, "dur": 5}, *([work] if kernel else [])]
    info = {"rank": 0, "world_size": 1, "backend": "nccl"}
    document = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
    (directory / "rank0.json").write_text(json.dumps(document), encoding="utf-8")


def export(directory: Path, *, kernel: bool) -> None:
    found = Export()
    process = found.process(100)
    process.range("step 1", 10, 90)
    if kernel:
        process.kernel("gemm", 50, 90)
    found.write(directory / "a.sqlite")


def load(directory: Path) -> list[Fact]:
    facts: list[Fact] = []
    options = ExplorerOptions(jobs=1, cache_dir=directory.parent / "cache")
    run_load(str(directory), options, facts.append, lambda: False)
    return facts


def shown(facts: list[Fact]) -> list[str]:
    """The profiler whose files each fact is about, then the number of ranks of the last job."""
    jobs: list[Job] = [fact.job for fact in facts if isinstance(fact, JobOpened | FilesRead)]
    return [job.capture.source for job in jobs]


def test_files_of_nsys_are_shown_if_traces_have_no_device_work(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    trace(directory, kernel=False)
    export(directory, kernel=True)

    facts = load(directory)

    assert shown(facts) == ["torch", "torch", "nsys", "nsys"]
    (last,) = [fact for fact in facts[-2:] if isinstance(fact, FilesRead)]
    assert [rank.source.path for rank in last.job.ranks] == ["a.sqlite"]
    assert [note.code for note in last.job.notes] == ["two_profilers"]
    assert facts[-1] == LoadEnded(stopped=False)


def test_traces_are_shown_if_they_have_device_work(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    trace(directory, kernel=True)
    export(directory, kernel=True)

    assert shown(load(directory)) == ["torch", "torch"]


def test_traces_are_shown_if_nsys_has_no_device_work_either(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    trace(directory, kernel=False)
    export(directory, kernel=False)

    assert shown(load(directory)) == ["torch", "torch"]
