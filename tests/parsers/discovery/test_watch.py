"""Looks at a directory that a job writes to, each made by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ccltui.parsers.discovery.discover import Changes, Watch

TRACE = b'{"schemaVersion": 1, "traceEvents": ['
S = 10**9


def watch_of(path: Path) -> Watch:
    return Watch(str(path), 10.0)


def written(path: Path, data: bytes, at_s: int = 1000) -> Path:
    path.write_bytes(data)
    os.utime(path, ns=(at_s * S, at_s * S))
    return path


def taken(watch: Watch) -> list[str]:
    return [entry.path for entry in watch.take().entries]


def test_a_directory_that_does_not_exist_yet(tmp_path: Path) -> None:
    watch = watch_of(tmp_path / "later")
    assert not watch.look(2000 * S)
    assert not watch.is_due()
    (tmp_path / "later").mkdir()
    written(tmp_path / "later" / "r0.json", TRACE)
    assert watch.look(2010 * S) == Changes(new=("r0.json",))
    assert watch.waiting() == {"r0.json": "still growing"}  # not the first look: it may be written
    assert not watch.look(2020 * S)
    assert watch.is_due()
    assert taken(watch) == ["r0.json"]
    assert not watch.is_due()


def test_at_the_first_look_old_files_stand_still_and_young_ones_do_not(tmp_path: Path) -> None:
    written(tmp_path / "old.json", TRACE, 1000)
    written(tmp_path / "young.json", TRACE, 1995)
    watch = watch_of(tmp_path)
    watch.look(2000 * S)
    assert taken(watch) == ["old.json"]
    assert watch.waiting() == {"young.json": "still growing"}


def test_a_file_that_grows_is_left_out_until_it_stands_still(tmp_path: Path) -> None:
    watch = watch_of(tmp_path)
    watch.look(2000 * S)
    for second in (2010, 2020, 2030):
        with (tmp_path / "r0.json").open("ab") as file:
            file.write(TRACE)
        changes = watch.look(second * S)
        assert changes.new + changes.grown == ("r0.json",)
        assert not watch.is_due()
    assert not watch.look(2040 * S)
    assert taken(watch) == ["r0.json"]


def test_a_change_of_equal_size_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "r0.json", TRACE)
    watch = watch_of(tmp_path)
    watch.look(2000 * S)
    watch.take()
    written(path, TRACE.replace(b"1", b"2"), 2005)
    assert watch.look(2010 * S).grown == ("r0.json",)
    assert watch.is_due()  # it is left out
    assert taken(watch) == []


def test_a_rename_into_place(tmp_path: Path) -> None:
    watch = watch_of(tmp_path)
    watch.look(2000 * S)
    written(tmp_path / ".r0.json.tmp", TRACE)
    watch.look(2010 * S)
    (tmp_path / ".r0.json.tmp").rename(tmp_path / "r0.json")
    assert watch.look(2020 * S) == Changes(new=("r0.json",), gone=(".r0.json.tmp",))
    watch.look(2030 * S)
    assert taken(watch) == ["r0.json"]


def test_a_file_replaced_by_one_of_equal_size_and_time(tmp_path: Path) -> None:
    path = written(tmp_path / "r0.json", TRACE)
    watch = watch_of(tmp_path)
    watch.look(2000 * S)
    written(tmp_path / "other", TRACE).rename(path)
    assert watch.look(2010 * S).grown == ("r0.json",)


def test_a_held_file_is_tried_again_when_it_changes(tmp_path: Path) -> None:
    path = written(tmp_path / "r0.json", TRACE)
    watch = watch_of(tmp_path)
    watch.look(2000 * S)
    assert taken(watch) == ["r0.json"]
    assert watch.hold({"r0.json": "cut off", "foreign": "x"})
    assert taken(watch) == []
    assert not watch.hold({"r0.json": "cut off"})
    watch.look(2010 * S)
    assert watch.waiting() == {"r0.json": "cut off"}
    written(path, TRACE + b"]}", 2015)
    watch.look(2020 * S)
    assert watch.waiting() == {"r0.json": "still growing"}
    watch.look(2030 * S)
    assert taken(watch) == ["r0.json"]
    watch.hold({"r0.json": "cut off"})
    watch.accept_all()
    assert taken(watch) == ["r0.json"]


def test_a_deleted_file_and_a_deleted_directory(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    path = written(folder / "r0.json", TRACE)
    watch = watch_of(folder)
    watch.look(2000 * S)
    watch.take()
    path.unlink()
    folder.rmdir()
    assert watch.look(2010 * S) == Changes(gone=("r0.json",))
    assert watch.is_due()
    assert taken(watch) == []


def test_a_symlink_changes_with_its_target(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    target = written(tmp_path / "elsewhere.json", TRACE)
    (folder / "r0.json").symlink_to(target)
    (folder / "nothing.json").symlink_to(tmp_path / "absent")
    watch = watch_of(folder)
    assert watch.look(2000 * S).new == ("nothing.json", "r0.json")
    written(target, TRACE * 2, 2005)
    assert watch.look(2010 * S).grown == ("r0.json",)


def test_logs_are_read_while_they_grow_and_traces_are_not(tmp_path: Path) -> None:
    watch = watch_of(tmp_path)
    watch.look(2000 * S)
    (tmp_path / "train.log").write_text("step 1 loss 2.5\nstep 2 loss 2.4\n")
    (tmp_path / "r0.json").write_bytes(TRACE)
    watch.look(2010 * S)
    assert taken(watch) == ["train.log"]
    with (tmp_path / "train.log").open("a") as file:
        file.write("step 3 loss 2.3\n")
    watch.look(2020 * S)
    assert watch.is_due()
    assert taken(watch) == ["r0.json", "train.log"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    written(tmp_path / "r0.json", TRACE)
    folder.chmod(0)
    watch = watch_of(tmp_path)
    try:
        assert watch.look(2000 * S).new == ("r0.json",)
    finally:
        folder.chmod(0o700)
