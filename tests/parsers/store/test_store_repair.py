"""Entries that cannot be used are replaced, or left aside; used ones are kept from purges."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from isal import isal_zlib

from ccltui.parsers.columns import StoredColumn, place_of
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import DamagedColumnsError
from ccltui.parsers.ingest.load import Failed, Loaded, load
from ccltui.parsers.ingest.rank_worker import read_one
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.column_store import DamagedEntryError, PartReader, Store
from ccltui.parsers.store.store_entry import COLUMNS_NAME, MANIFEST_NAME, with_checksum
from ccltui.parsers.store.stored_columns import MappedColumns, StoredColumns, map_bytes

TRACE = (
    '{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}],'
    '"distributedInfo":{"rank":%d,"world_size":2}}'
)
NOBODY = 65534


def cut(folder: Path) -> None:
    os.truncate(folder / COLUMNS_NAME, 10)


def emptied(folder: Path) -> None:
    (folder / MANIFEST_NAME).write_bytes(b"")


def headless(folder: Path) -> None:
    (folder / MANIFEST_NAME).unlink()


def bare(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


def a_loop(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(folder)


DAMAGES = (cut, emptied, headless, bare, no_folder, a_loop)
Damage = Callable[[Path], None]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(2):
        (folder / f"rank{rank}.json").write_text(TRACE % rank)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def loaded(job: Path, store: Store, *, inline: bool = True) -> list[bool]:
    """Whether each rank came from the store; any failure fails the test.

    A worker process takes 0.3 CPU-s to start.
    """
    events = list(load(discover(job).choose(), cache_dir=store.directory, jobs=1, inline=inline))
    assert [event.error for event in events if isinstance(event, Failed)] == []
    ranks = [event for event in events if isinstance(event, Loaded)]
    assert all(rank.trace.group("gpu").start_ns.tolist() == [1000] for rank in ranks)
    return [rank.cached for rank in ranks]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("inline", [False, True])
def test_a_damaged_entry_is_replaced_by_the_next_run(
    job: Path, store: Store, damage: Damage, inline: bool
) -> None:
    assert loaded(job, store) == [False, False]
    damage(sorted(store.directory.iterdir())[0])

    assert sorted(loaded(job, store, inline=inline)) == [False, True]
    assert loaded(job, store) == [True, True]
    assert len(list(store.directory.iterdir())) == 2


@pytest.mark.parametrize("damage", [one for one in DAMAGES if one is not bare])
def test_an_entry_of_another_user_costs_speed_only(job: Path, store: Store, damage: Damage) -> None:
    """As in a cache that several users share; a folder with nothing in it may be replaced.

    What is written to another place follows in a worker once, in this process in every case.
    """
    if os.geteuid():
        pytest.skip("only root can give a file away")
    loaded(job, store)
    for folder in list(store.directory.iterdir()):
        damage(folder)
        os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)
    before = sorted(store.directory.iterdir())

    assert loaded(job, store) == [False, False]
    assert loaded(job, store, inline=damage is not cut) == [False, False]

    assert sorted(store.directory.iterdir()) == before
    assert {folder.lstat().st_uid for folder in before} == {NOBODY}


def test_an_unusable_entry_says_what_it_is(job: Path, store: Store) -> None:
    store.save("k", read_kineto(job / "rank0.json"))
    cut(store.directory / "k")

    with pytest.raises(DamagedEntryError, match=str(store.directory / "k")):
        store.open("k")
    with pytest.raises(FileNotFoundError):
        store.open("other")


def test_columns_are_on_disk_before_they_have_a_name(
    job: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    rename, flush = Path.rename, os.fsync

    def renamed(path: Path, target: Path) -> Path:
        done.append("rename")
        return rename(path, target)

    def flushed(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        flush(descriptor)

    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(os, "fsync", flushed)

    store.write("k", read_kineto(job / "rank0.json"))

    assert done == [COLUMNS_NAME, MANIFEST_NAME, "rename"]


def test_a_disk_that_says_late_that_it_is_full_leaves_no_entry(
    job: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left on device"):
        store.write("k", read_kineto(job / "rank0.json"))
    assert list(store.directory.iterdir()) == []


def test_what_is_used_is_fresh_in_both_files(job: Path, store: Store) -> None:
    """A purge of a scratch file system removes files that are old, each for itself."""
    store.save("k", read_kineto(job / "rank0.json"))
    files = [store.directory / "k" / name for name in (COLUMNS_NAME, MANIFEST_NAME)]
    week_ago = time.time() - 7 * 86400
    for file in files:
        os.utime(file, (week_ago, week_ago))

    assert store.load("k") is not None

    for file in files:
        status = file.stat()
        assert min(status.st_atime, status.st_mtime) > time.time() - 60


def test_what_was_used_today_is_not_touched_again(job: Path, store: Store) -> None:
    store.save("k", read_kineto(job / "rank0.json"))
    an_hour_ago = time.time() - 3600
    files = [store.directory / "k" / name for name in (COLUMNS_NAME, MANIFEST_NAME)]
    for file in files:
        os.utime(file, (an_hour_ago, an_hour_ago))

    assert store.load("k") is not None

    assert [file.stat().st_mtime for file in files] == [pytest.approx(an_hour_ago)] * 2


def _failing(error: OSError) -> Callable[..., StoredColumns]:
    def mapped(*_: object) -> StoredColumns:
        raise error

    return mapped


def test_columns_that_cannot_be_mapped_say_the_true_reason(
    job: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(24, "Too many open files")
    monkeypatch.setattr("ccltui.parsers.store.column_store.map_columns", _failing(error))

    events = list(load(discover(job).choose(), cache_dir=store.directory, jobs=1))

    failures = [event for event in events if isinstance(event, Failed)]
    assert sorted((one.error, one.is_lost) for one in failures) == [
        (
            f"rank{rank}.json: its columns in {store.directory} cannot be mapped "
            "(Too many open files)",
            True,
        )
        for rank in range(2)
    ]


def test_columns_that_vanish_are_read_again(
    job: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process trims the store between writing and mapping."""
    opened = Store.open_parts

    def trimmed(self: Store, key: str, reader: PartReader | None = None) -> object:
        if self.directory == store.directory:
            shutil.rmtree(store.directory / key, ignore_errors=True)
        return opened(self, key, reader)

    monkeypatch.setattr(Store, "open_parts", trimmed)

    assert loaded(job, store) == [False, False]


def test_columns_that_go_nowhere_name_every_place_and_reason(job: Path, tmp_path: Path) -> None:
    for name in ("cache", "scratch"):
        (tmp_path / name).write_text("a file where a folder should be")
    path = job / "rank0.json"

    outcome = read_one(str(path), path.name, "kineto", (tmp_path / "cache", tmp_path / "scratch"))

    assert outcome.is_lost
    assert outcome.error == (
        f"rank0.json: its columns cannot be written to {tmp_path / 'cache'} (File exists) or "
        f"{tmp_path / 'scratch'} (File exists)"
    )


def written(tmp_path: Path) -> Store:
    (tmp_path / "t.json").write_text(TRACE % 0)
    store = Store(tmp_path / "store")
    store.write("k", read_kineto(tmp_path / "t.json"))
    assert store.load("k") is not None
    return store


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", COLUMNS_NAME, MANIFEST_NAME])
def test_what_another_user_wrote_is_not_read(tmp_path: Path, name: str) -> None:
    store = written(tmp_path)
    store.directory.chmod(0o777)  # in a directory for this user alone others leave nothing

    os.chown(store.directory / "k" / name, NOBODY, NOBODY)

    assert Store(store.directory).load("k") is None


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_what_others_may_write_is_not_read(tmp_path: Path, mode: int) -> None:
    store = written(tmp_path)
    store.directory.chmod(0o777)

    (store.directory / "k").chmod(mode)

    assert Store(store.directory).load("k") is None


def test_a_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    store = written(tmp_path)

    columns = store.directory / "k" / COLUMNS_NAME
    columns.rename(tmp_path / "elsewhere")
    columns.symlink_to(tmp_path / "elsewhere")

    assert store.load("k") is None


def test_no_byte_of_a_manifest_can_change(tmp_path: Path) -> None:
    store = written(tmp_path)
    manifest = store.directory / "k" / MANIFEST_NAME
    data = manifest.read_bytes()

    for at in range(len(data)):
        manifest.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert store.load("k") is None


@pytest.mark.parametrize("number", [1 << 62, 1 << 63, 1 << 70, -1])
@pytest.mark.parametrize("name", ["begin", "end", "length", "packed", "total_bytes"])
def test_places_outside_of_the_file_are_not_read(tmp_path: Path, name: str, number: int) -> None:
    store = written(tmp_path)
    manifest = store.directory / "k" / MANIFEST_NAME
    document = json.loads(manifest.read_bytes().rpartition(b"\n")[0])
    if name in document:
        document[name] = number
    else:
        document["columns"][3][StoredColumn.__struct_fields__.index(name)] = number

    manifest.write_bytes(with_checksum(json.dumps(document).encode()))

    assert store.load("k") is None


@pytest.mark.parametrize(
    "text",
    [pytest.param("9" * 5000 + "i4,i4", id="digits"), "i4,i4", "O", "V8", "<U4", "nothing"],
)
def test_a_type_that_no_column_has_is_damage(tmp_path: Path, text: str) -> None:
    """NumPy evaluates numbers in the text of a type."""
    store = written(tmp_path)
    manifest = store.directory / "k" / MANIFEST_NAME
    document = json.loads(manifest.read_bytes().rpartition(b"\n")[0])
    document["columns"][3][StoredColumn.__struct_fields__.index("dtype")] = text

    manifest.write_bytes(with_checksum(json.dumps(document).encode()))

    assert store.load("k") is None


def test_a_manifest_that_is_nested_too_deeply_is_damage(tmp_path: Path) -> None:
    store = written(tmp_path)
    text = b'{"unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    (store.directory / "k" / MANIFEST_NAME).write_bytes(with_checksum(text))

    assert store.load("k") is None


def _in_place(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _with_its_times(path: Path, data: bytes) -> None:
    status = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [_in_place, _with_its_times])
def test_a_changed_column_is_found_at_its_first_use(
    tmp_path: Path, change: Callable[[Path, bytes], None]
) -> None:
    store = written(tmp_path)
    path = store.directory / "k" / COLUMNS_NAME
    data = path.read_bytes()
    trace = store.open("k")
    assert trace.place is not None
    stored = [column for column in trace.place.columns if column.end > column.begin]
    assert len(stored) > 5

    for column in stored:
        at = column.end - 1
        change(path, data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :])
        assert store.intact_part("k", 0) is None
        damaged = MappedColumns(trace.place, map_bytes(trace.place), trace.place.columns)
        with pytest.raises(DamagedColumnsError, match=re.escape(str(path))):
            damaged.array(column.name)
        for other in stored:
            if other is not column:
                damaged.array(other.name)
    change(path, data)
    assert store.intact_part("k", 0) is not None


def test_one_place_is_found_without_the_others(tmp_path: Path) -> None:
    place = written(tmp_path).open("k").place
    assert place is not None

    every = [place_of(column.name, place.encoded) for column in place.columns]

    assert every == list(place.columns)
    assert place_of("gpu/start", place.encoded) is None  # the beginning of a name


def test_opening_reads_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = written(tmp_path)
    sums: list[int] = []
    real = isal_zlib.crc32

    def counted(data: bytes) -> int:
        sums.append(len(data))
        return real(data)

    name = "ccltui.parsers.store.stored_columns.isal_zlib"
    monkeypatch.setattr(name, SimpleNamespace(crc32=counted))

    trace = store.open("k")
    gpu = trace.group("gpu")
    assert (trace.first_ns, len(gpu), len(trace.collective_args)) == (1000, 1, 0)
    assert sums == []
    for _ in range(2):
        assert gpu.dur_ns.tolist() == [2000]
    assert len(sums) == 1
