"""A file that is named like the traces beside it but holds none is a rank that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from found_files import put, trace_text

from ccltui.parsers.job import open_job, start_job


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


def test_that_of_another_iteration_is_no_failure_of_this_one(tmp_path: Path) -> None:
    for iteration in (5, 10):
        for rank in (0, 1):
            put(tmp_path, f"iteration_{iteration}/rank{rank}.json", trace_text(rank, iteration))
    for iteration in (5, 10, 15):
        (tmp_path / f"iteration_{iteration}").mkdir(exist_ok=True)
        (tmp_path / f"iteration_{iteration}" / "rank2.json").write_bytes(b"")

    found = {iteration: start_job(tmp_path, iteration=iteration).failures for iteration in (5, 10)}

    assert [one.path for one in found[5]] == ["iteration_5/rank2.json"]
    assert [one.path for one in found[10]] == ["iteration_10/rank2.json"]


def test_beside_one_trace_the_last_number_is_that_of_the_rank(tmp_path: Path) -> None:
    put(tmp_path, "iteration_5/rank0.json", trace_text(0, 1))
    for path in ("iteration_5/rank3.json", "iteration_6/rank0.json"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"")

    assert [one.path for one in start_job(tmp_path).failures] == ["iteration_5/rank3.json"]


def test_what_is_named_otherwise_is_none(tmp_path: Path) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 1))
    (tmp_path / "notes1.json").write_bytes(b"")
    (tmp_path / "rank1.txt").write_bytes(b"")
    (tmp_path / "rank2.json").symlink_to("rank0.json")

    assert start_job(tmp_path).failures == ()
