"""The column store: what goes in comes out mapped, whatever happens beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ccltui.parsers.columns import CollectiveArgs, Events, RankTrace
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.column_store import STORE_VERSION, Store
from ccltui.parsers.store.store_entry import COLUMNS_NAME, MANIFEST_NAME

TRACE = (
    '{"traceEvents":[{"ph":"X","cat":"kernel","name":"k\\ud83d","pid":0,"tid":7,"ts":1,"dur":2,'
    '"args":{"Collective name":"allreduce","In msg nelems":8,"Process Group Name":"0",'
    '"Process Group Ranks":"[0, 1]"}}],"distributedInfo":{"rank":0,"world_size":2}}'
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rank0_trace.json"
    path.write_text(TRACE)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def assert_same(one: RankTrace, other: RankTrace) -> None:
    for group in one.events:
        for name, _ in (*Events.COLUMNS, *Events.SPARSE):
            np.testing.assert_array_equal(
                getattr(one.group(group), name), getattr(other.group(group), name)
            )
    for name, _ in CollectiveArgs.COLUMNS:
        left, right = getattr(one.collective_args, name), getattr(other.collective_args, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert list(one.strings) == list(other.strings)
    assert one.source == msgspec.structs.replace(
        other.source, path=one.source.path, real_path=one.source.real_path
    )
    for fact in ("rank", "tracks", "process_groups", "counts", "notes", "world_size"):
        assert getattr(one, fact) == getattr(other, fact)


def test_what_goes_in_comes_out_read_only(store: Store, source: Path) -> None:
    trace = read_kineto(source)
    key = store.key(source, 1)

    assert store.load(key) is None
    assert store.save(key, trace)
    loaded = store.load(key)

    assert loaded is not None
    assert_same(loaded, trace)
    assert not loaded.group("gpu").start_ns.flags.writeable


def test_columns_have_the_types_of_numpy_that_operations_use(store: Store, source: Path) -> None:
    """Of two equal types of one size NumPy casts one to the other in each operation."""
    trace = read_kineto(source)
    key = store.key(source, 1)
    assert store.save(key, trace)

    loaded = store.load(key)
    assert loaded is not None
    for name, _ in Events.COLUMNS:
        column = getattr(loaded.group("gpu"), name)
        assert column.dtype.num in {np.dtype(kind).num for kind in (np.int64, np.int32)}, name


def test_an_empty_trace_is_stored_too(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("[]")

    store.save("k", read_kineto(path))

    loaded = store.load("k")
    assert loaded is not None
    assert loaded.first_ns is None


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(TRACE + " "),
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: path.rename(path.with_suffix(".moved")) and path.write_text(TRACE[::-1]),
    ],
)
def test_another_file_has_another_key(
    store: Store, source: Path, change: Callable[[Path], object]
) -> None:
    key = store.key(source, 1)

    change(source)

    assert store.key(source, 1) != key


def test_another_parser_has_another_key(store: Store, source: Path) -> None:
    assert store.key(source, 1) != store.key(source, 2)


def test_names_that_are_no_text_do_not_stop_the_store(store: Store, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/rank\xff.json"))
    path.write_text(TRACE)

    assert store.save(store.key(path, 1), read_kineto(path))
    assert store.load(store.key(path, 1)) is not None


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / COLUMNS_NAME).unlink(),
        lambda folder: (folder / MANIFEST_NAME).unlink(),
        lambda folder: (folder / MANIFEST_NAME).write_text("{"),
        lambda folder: (folder / MANIFEST_NAME).write_text('{"version": 1}'),
        lambda folder: (folder / COLUMNS_NAME).write_bytes(b"short"),
        lambda folder: (folder / MANIFEST_NAME).write_text(
            (folder / MANIFEST_NAME)
            .read_text()
            .replace(f'"version":{STORE_VERSION}', '"version":0')
        ),
        lambda folder: (folder / MANIFEST_NAME).write_text(
            (folder / MANIFEST_NAME).read_text().replace("gpu/name", "gpu/nome")
        ),
        lambda folder: (folder / MANIFEST_NAME).write_text(
            (folder / MANIFEST_NAME).read_text().replace("gpu/", "cpu/")
        ),
        lambda folder: (folder / MANIFEST_NAME).write_text(
            (folder / MANIFEST_NAME).read_text().replace('"<i4"', '"|O"')
        ),
    ],
)
def test_a_damaged_entry_is_no_entry(
    store: Store, source: Path, damage: Callable[[Path], object]
) -> None:
    store.save("k", read_kineto(source))

    damage(store.directory / "k")

    assert store.load("k") is None


def test_a_directory_that_cannot_be_written_is_said_not_raised(
    tmp_path: Path, source: Path
) -> None:
    (tmp_path / "file").write_text("")

    assert not Store(tmp_path / "file" / "store").save("k", read_kineto(source))


def test_a_full_disk_leaves_nothing_behind(
    store: Store, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ccltui.parsers.store.column_store._write", full)

    assert not store.save("k", read_kineto(source))
    assert list(store.directory.iterdir()) == []


def test_the_second_of_two_writers_finds_the_work_done(store: Store, source: Path) -> None:
    trace = read_kineto(source)

    assert store.save("k", trace)
    assert store.save("k", trace)

    assert [folder.name for folder in store.directory.iterdir()] == ["k"]


def test_least_recently_used_entries_go_first(store: Store, source: Path) -> None:
    trace = read_kineto(source)
    for age, key in enumerate(["newest", "used", "oldest"]):
        store.save(key, trace)
        for file in (store.directory / key).iterdir():
            os.utime(file, (1_000_000 - age * 1000,) * 2)
    size = sum(file.stat().st_size for file in (store.directory / "used").iterdir())

    Store(store.directory, limit_bytes=2 * size + 8).trim()  # their names are of several lengths

    assert sorted(folder.name for folder in store.directory.iterdir()) == ["newest", "used"]


def test_scratch_of_killed_writers_is_removed(store: Store, source: Path) -> None:
    store.save("k", read_kineto(source))
    abandoned = store.directory / ".writing-abandoned"
    shutil.copytree(store.directory / "k", abandoned)
    for file in abandoned.iterdir():
        os.utime(file, (1, 1))

    store.trim()

    assert [folder.name for folder in store.directory.iterdir()] == ["k"]


def test_scratch_of_a_writer_that_has_just_started_stays(store: Store, source: Path) -> None:
    store.save("k", read_kineto(source))
    started = store.directory / ".writing-now"
    started.mkdir()

    store.trim()

    assert started.is_dir()


def test_nothing_but_entries_is_removed(store: Store, source: Path) -> None:
    store.save("k", read_kineto(source))
    mine = store.directory / "traces"
    mine.mkdir()
    (mine / "rank0.json").write_bytes(bytes(1_000_000))
    (store.directory / "empty").mkdir()

    Store(store.directory, limit_bytes=1).trim()

    assert sorted(folder.name for folder in store.directory.iterdir()) == ["empty", "traces"]
    assert (mine / "rank0.json").exists()


def test_columns_stay_readable_after_their_entry_is_removed(store: Store, source: Path) -> None:
    store.save("k", read_kineto(source))
    loaded = store.load("k")
    assert loaded is not None

    shutil.rmtree(store.directory)

    assert loaded.group("gpu").start_ns.tolist() == [1000]
