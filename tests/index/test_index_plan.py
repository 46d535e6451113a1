"""How the files of a job are divided into tasks, and what is kept of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.index.index_state import FileRecord, IndexState, Plan, PlannedFile
from ccltui.index.work_division import MAX_TASKS, TASK_TEXT_BYTES, tasks_of
from ccltui.parsers.errors import TraceError


def planned(number: int, size: int, form: str = "none") -> PlannedFile:
    return PlannedFile(f"rank{number}.json", b"/x", "kineto", size, form, f"key{number}", number)


@given(
    st.lists(st.integers(0, 3 * TASK_TEXT_BYTES), max_size=60),
    st.none() | st.integers(1, 9),
)
def test_every_file_is_in_one_task(sizes: list[int], per_task: int | None) -> None:
    files = [planned(number, size) for number, size in enumerate(sizes)]

    tasks = tasks_of(files, range(len(files)), per_task)

    assert [number for task in tasks for number in task] == list(range(len(files)))
    assert all(tasks)
    if per_task:
        assert all(len(task) == per_task for task in tasks[:-1])


def test_tasks_are_as_large_as_their_text() -> None:
    gigabyte = TASK_TEXT_BYTES
    files = [planned(n, size) for n, size in enumerate([gigabyte // 2, gigabyte // 2, 1, gigabyte])]
    packed = [planned(0, gigabyte // 12, "gzip"), planned(1, gigabyte // 12, "gzip")]

    assert tasks_of(files, range(4)) == ((0, 1), (2,), (3,))
    assert tasks_of(packed, range(2)) == ((0,), (1,))


@pytest.mark.parametrize("per_task", [None, 1])
def test_an_array_has_no_more_tasks_than_slurm_accepts(per_task: int | None) -> None:
    files = [planned(number, TASK_TEXT_BYTES) for number in range(3 * MAX_TASKS)]

    assert len(tasks_of(files, range(len(files)), per_task)) <= MAX_TASKS


def test_a_plan_is_named_after_its_files_whatever_their_tasks() -> None:
    files = (planned(0, 1), planned(1, 2))
    one = Plan(b"/job", b"/store", files, ((0, 1),))

    assert one.digest == Plan(b"/elsewhere", b"/store", files[::-1], ((0,), (1,))).digest
    assert one.digest != Plan(b"/job", b"/store", files[:1], ((0,),)).digest


def test_paths_that_are_no_text_survive_the_plan(tmp_path: Path) -> None:
    state = IndexState(tmp_path / "state")
    file = PlannedFile("rank?.json", b"/x/rank\xff.json", "kineto", 1, "none", "k")

    state.prepare(Plan(b"/job", bytes(tmp_path), (file,), ()))

    assert bytes(state.plan().files[0].source()) == b"/x/rank\xff.json"


def test_attempts_are_counted_until_one_is_withdrawn(tmp_path: Path) -> None:
    state = IndexState(tmp_path)
    state.prepare(Plan(b"/job", bytes(tmp_path), (), ()))

    assert [state.begin("k", 2) for _ in range(3)] == [1, 2, None]
    state.withdraw("k", 2)
    assert state.begin("k", 2) == 2
    state.forget("k")
    assert state.begin("k", 2) == 1


def test_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    state = IndexState(tmp_path)
    state.prepare(Plan(b"/job", bytes(tmp_path), (), ()))
    state.write_record(FileRecord("k", "rank0.json", (0,)))
    assert state.record("k") == FileRecord("k", "rank0.json", (0,))

    place = tmp_path / "files" / "k"
    data = place.read_bytes()
    for at in range(len(data)):
        place.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert state.record("k") is None

    place.write_text("{")
    (tmp_path / "plan.json").write_text('{"version": 99}')

    assert state.record("k") is None
    with pytest.raises(TraceError, match="no plan of this version"):
        state.plan()
