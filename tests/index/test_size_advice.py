"""Whether the explorer offers ``ccltui index``, and with which words."""

from __future__ import annotations

import resource
from pathlib import Path

import msgspec
import pytest

from ccltui.index import work_division
from ccltui.index.work_division import ADVICE_CODE, with_advice
from ccltui.parsers import machine_limits
from ccltui.parsers.job import Job, open_job, start_job

TRACE = (
    '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, '
    '"dur": 2, "args": {"stream": 7}}]}'
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "the job"
    folder.mkdir()
    for rank in range(4):
        (folder / f"rank{rank}.json").write_text(TRACE + " " * rank)
    return folder


def advice(job: Job, path: Path, store: Path) -> list[str]:
    noted = with_advice(job, str(path), store, 2)
    return [note.message for note in noted.notes if note.code == ADVICE_CODE]


def enlarged(job: Job, size_bytes: int) -> Job:
    files = tuple(msgspec.structs.replace(f, size_bytes=size_bytes) for f in job.capture.files)
    capture = msgspec.structs.replace(job.capture, files=files)
    return Job(job.path, job.discovery, capture)


def test_a_small_job_is_read_here(directory: Path, tmp_path: Path) -> None:
    assert advice(start_job(directory), directory, tmp_path / "store") == []


@pytest.mark.parametrize(("sbatch", "engine"), [("/bin/sbatch", " --engine slurm"), (None, "")])
def test_a_large_job_is_offered_one_command(
    directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sbatch: str | None,
    engine: str,
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: sbatch)
    monkeypatch.setattr(work_division, "available_memory", lambda: 1 << 40)
    monkeypatch.setattr(work_division, "workers_for", lambda *_: 2)
    large = enlarged(start_job(directory), 25_000_000_000)

    assert advice(large, directory, tmp_path / "store") == [
        "reading 4 files (100.0 GB) takes about 5 min here: "
        f"ccltui index '{directory}' --store {tmp_path / 'store'}{engine}"
    ]


def test_a_machine_without_the_memory_is_a_reason(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_division, "available_memory", lambda: 100_000_000)

    (text,) = advice(start_job(directory), directory, tmp_path / "store")

    assert text.startswith(
        "reading rank3.json needs about 0.1 GB of memory, and 0.1 GB are allowed"
    )


def test_the_limit_of_address_space_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, 1 << 30))
    assert machine_limits.address_space() == 1 << 30


def test_a_job_in_the_store_is_not_offered_again(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_job(directory, cache_dir=tmp_path / "store")
    monkeypatch.setattr(work_division, "available_memory", lambda: 1)

    assert advice(start_job(directory), directory, tmp_path / "store") == []
