"""A file that is named like the traces beside it but holds none is a rank that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from found_files import put, trace_text

from parsers.job import open_job, start_job


@pytest.mark.parametrize(
    ("name", "content"), [("rank1.json", b""), ("rank1.json.gz", b""), ("rank12.json", b"\0" * 9)]
)
def test_it_is_a_failure_of_the_job(tmp_path: Path, name: str, content: bytes) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 1))
    (tmp_path / name).write_bytes(content)

    (failure,) = open_job(tmp_path, cache_dir=tmp_path / "cache").failures

    assert failure.path == name
    assert failure.error.startswith(f"{name}: ")


def test_in_folders_of_ranks_too(tmp_path: Path) -> None:
    put(tmp_path, "rank0/trace.json", trace_text(0, 1))
    (tmp_path / "rank1").mkdir()
    (tmp_path / "rank1" / "trace.json").write_bytes(b"")

    assert [one.path for one in start_job(tmp_path).failures] == ["rank1/trace.json"]


def test_what_is_named_otherwise_is_none(tmp_path: Path) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 1))
    (tmp_path / "notes1.json").write_bytes(b"")
    (tmp_path / "rank1.txt").write_bytes(b"")
    (tmp_path / "rank2.json").symlink_to("rank0.json")

    assert start_job(tmp_path).failures == ()
