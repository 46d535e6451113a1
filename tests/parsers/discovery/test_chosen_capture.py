"""Which of several captures is opened where nobody chooses one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from found_files import put, trace_text

from ccltui.parsers import kineto, nsys
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.kineto import has_kernels, rank_builder

COMPUTING = ("kernel", "Kernel", "mtia_ccp_events", "cuda,kernel")
OTHERS = ("cpu_op", "gpu_memcpy", "Memset", "kernel_launch", "cuda_runtime", "python_function")


def of_category(
    category: str, *, rank: int = 0, world_size: int = 1, padding: int = 0, name: str = "e"
) -> str:
    event = {"ph": "X", "name": name, "pid": 0, "tid": 7, "ts": 5, "dur": 2, "cat": category}
    host = {**event, "cat": "cpu_op", "name": "aten::kernel" + "x" * padding}
    info = {"rank": rank, "world_size": world_size}
    return json.dumps({"distributedInfo": info, "traceEvents": [host, event]})


def several(root: Path, **jobs: tuple[int, str]) -> Path:
    """Write a folder for each job, of so many ranks with an event of a category."""
    for name, (size, category) in jobs.items():
        for rank in range(size):
            text = of_category(category, rank=rank, world_size=size, name=name)
            put(root, f"{name}/rank{rank}.json", text)
    return root


def test_a_capture_with_kernels_comes_before_a_larger_one_without(tmp_path: Path) -> None:
    several(tmp_path, a=(2, "kernel"), b=(4, "cpu_op"), c=(2, "cuda_runtime"))
    discovery = discover(tmp_path)

    assert len(discovery.captures) == 3
    assert discovery.choose().name == "a"
    assert discovery.choose(capture="b").name == "b"


def test_the_job_of_most_ranks_comes_first(tmp_path: Path) -> None:
    several(tmp_path, a=(8, "kernel"), b=(1, "kernel"), c=(2, "kernel"))

    assert discover(tmp_path).choose().name == "a"


def test_of_captures_alike_the_last_is_chosen(tmp_path: Path) -> None:
    several(tmp_path, run_2=(2, "kernel"), run_10=(2, "kernel"))

    assert discover(tmp_path).choose().name == "run_10"


def test_a_stub_is_not_chosen_before_a_recording(tmp_path: Path) -> None:
    put(tmp_path, "a/rank0.json", of_category("kernel", padding=5000))
    put(tmp_path, "b/rank0.json", of_category("kernel"))

    assert discover(tmp_path).choose().name == "a"


def test_without_kernels_anywhere_the_most_complete_is_chosen(tmp_path: Path) -> None:
    several(tmp_path, a=(4, "cpu_op"), b=(2, "cpu_op"))

    assert discover(tmp_path).choose().name == "a"


def test_iterations_of_a_job_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several(tmp_path, iteration_5=(2, "cpu_op"), iteration_10=(2, "cpu_op"))
    monkeypatch.setattr(kineto, "text_pieces", None)

    assert discover(tmp_path).choose().name == "iteration_10"


@pytest.mark.parametrize("category", COMPUTING)
@pytest.mark.parametrize("name", ["rank0.json", "rank0.json.gz"])
def test_kernels_are_found_by_their_category(tmp_path: Path, name: str, category: str) -> None:
    assert rank_builder.group_of(category) == "gpu"
    assert has_kernels(str(put(tmp_path, name, of_category(category)))) is True


@pytest.mark.parametrize("category", OTHERS)
def test_other_work_is_no_kernel(tmp_path: Path, category: str) -> None:
    assert has_kernels(str(put(tmp_path, "rank0.json", of_category(category)))) is False


def test_a_category_between_two_pieces_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, "rank0.json", of_category("kernel"))
    for size in range(100, 300, 7):
        monkeypatch.setattr(kineto, "_PIECE_BYTES", size)
        assert has_kernels(str(path)) is True


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "rank0.json", of_category("kernel", padding=5000))
    monkeypatch.setattr(kineto, "_PIECE_BYTES", 500)
    monkeypatch.setattr(kineto, "_MAX_BYTES", 1000)

    assert has_kernels(str(path)) is None


def test_damaged_text_is_searched_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = put(tmp_path, "rank0.json.gz", trace_text(0, 1)).read_bytes()
    cut = put(tmp_path, "cut.json.gz", whole[: len(whole) // 2])

    assert has_kernels(str(cut)) is False
    assert has_kernels(str(tmp_path / "absent.json")) is None


@pytest.mark.parametrize(("rows", "expected"), [(1, True), (0, False), (None, False)])
def test_an_export_has_kernels_where_their_table_has_rows(
    tmp_path: Path, rows: int | None, expected: bool
) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        if rows is not None:
            database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")
            database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?)", [(5,)] * rows)
        database.commit()

    assert nsys.has_kernels(str(path)) is expected


def test_a_file_that_is_no_database_decides_nothing(tmp_path: Path) -> None:
    assert nsys.has_kernels(str(put(tmp_path, "a.sqlite", "SQLite format 3\0 no"))) is None
