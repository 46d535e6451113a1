"""Logs of a job that are read into the store: each once, in processes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from inspector_lines import write_job

from ccltui.metrics.inspector import inspector_job
from ccltui.metrics.inspector.inspector_job import UnreadLog, drop_logs, opened_logs
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.inspector.record_columns import InspectorFile


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[FoundFile]:
    monkeypatch.setattr(inspector_job, "_IN_MEMORY_BYTES", 0)
    return discover(write_job(tmp_path / "job")).files


def numbers(logs: Sequence[FoundFile], store: Path | None) -> list[list[int]]:
    with opened_logs(logs, store) as found:
        assert all(isinstance(one, InspectorFile) for one in found)
        return [one.records(0).number.tolist() for one in found if isinstance(one, InspectorFile)]


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspector_job, "allowed_cpus", lambda: 1)


def test_worker_processes_read_all_logs(tmp_path: Path, logs: Sequence[FoundFile]) -> None:
    assert numbers(logs, tmp_path / "store") == [list(range(1, 61))] * 8


def test_a_stored_log_is_not_read_again(
    tmp_path: Path, logs: Sequence[FoundFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    first = numbers(logs, tmp_path / "store")
    monkeypatch.setattr(inspector_job, "read_records", None)

    assert numbers(logs, tmp_path / "store") == first


def test_without_a_store_columns_are_temporary(
    tmp_path: Path, logs: Sequence[FoundFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)

    assert numbers(logs, None) == [list(range(1, 61))] * 8
    assert sorted(one.name for one in tmp_path.iterdir()) == ["job"]


def test_a_log_without_records_gives_the_reason(
    tmp_path: Path, logs: Sequence[FoundFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    Path(logs[3].real_path).write_text("nothing\n")
    with opened_logs(logs, tmp_path / "store") as found:
        (left_out,) = (one for one in found if isinstance(one, UnreadLog))

    assert left_out.why.endswith("holds no record of NCCL Inspector")


def test_dropped_logs_are_read_again(
    tmp_path: Path, logs: Sequence[FoundFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    first = numbers(logs, tmp_path / "store")
    drop_logs(logs, tmp_path / "store")

    assert numbers(logs, tmp_path / "store") == first
