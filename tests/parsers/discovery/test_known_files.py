"""What is known of files from an earlier opening: used while they are unchanged, never else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from found_files import put, trace_text

from ccltui.parsers.discovery import discover as discovery
from ccltui.parsers.discovery.discover import FOLDER, LEAST_FILES, Discovery, discover
from ccltui.parsers.store.store_entry import with_checksum
from ccltui.parsers.text import compression

RANKS = LEAST_FILES + 4


@pytest.fixture
def job(tmp_path: Path) -> Path:
    root = tmp_path / "job"
    for rank in range(RANKS):
        last = rank % 2 == 0
        put(root, f"rank{rank}.json", trace_text(rank, RANKS, last=last, ts=rank + 1))
    put(root, "notes.txt", "nothing to see")
    put(root, "packed.json.gz", trace_text(3, RANKS, last=False, ts=4))
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are younger than what is kept."""
    monkeypatch.setattr(discovery, "_SETTLED_NS", -(10**9))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are opened to be recognised."""
    names: list[str] = []
    real = compression.open_regular

    def recorded(path: str) -> object:
        names.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(compression, "open_regular", recorded)
    return names


def place(store: Path) -> Path:
    (only,) = (store / FOLDER).iterdir()
    return only


def plain(found: Discovery) -> object:
    return msgspec.to_builtins(found)


def test_a_second_opening_opens_no_file_and_finds_the_same(
    job: Path, store: Path, opened: list[str]
) -> None:
    first = discover(job, store=store)
    assert len(opened) >= RANKS
    opened.clear()

    second = discover(job, store=store)

    assert opened == []
    assert plain(second) == plain(first) == plain(discover(job))
    assert [file.rank for file in second.choose().files] == list(range(RANKS))
    assert all(file.digest for file in second.choose().files)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(trace_text(5, RANKS, ts=77)),
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: _replaced_with_times(path, trace_text(5, RANKS, ts=9)),
    ],
    ids=["content", "time", "cut", "same size and time"],
)
def test_a_file_that_changed_is_opened_again_and_no_other(
    job: Path, store: Path, opened: list[str], change: Callable[[Path], object]
) -> None:
    discover(job, store=store)
    opened.clear()
    time.sleep(0.02)  # a tick of the clock of the file system

    change(job / "rank5.json")
    found = discover(job, store=store)

    assert set(opened) == {"rank5.json"}
    assert plain(found) == plain(discover(job))


def _replaced_with_times(path: Path, content: bytes) -> None:
    status = path.stat()
    other = path.with_suffix(".new")
    other.write_bytes(content)
    os.truncate(other, status.st_size)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def test_a_rank_that_is_added_or_removed_is_seen(job: Path, store: Path, opened: list[str]) -> None:
    discover(job, store=store)
    opened.clear()

    (job / "rank1.json").unlink()
    put(job, f"sub/rank{RANKS}.json", trace_text(RANKS, RANKS + 1, ts=5))
    found = discover(job, store=store)

    assert set(opened) == {f"rank{RANKS}.json"}
    assert plain(found) == plain(discover(job))
    opened.clear()
    assert plain(discover(job, store=store)) == plain(found)
    assert opened == []


def test_a_name_that_now_means_another_file_is_opened(
    job: Path, store: Path, opened: list[str]
) -> None:
    discover(job, store=store)
    opened.clear()

    (job / "rank2.json").rename(job / "x")
    (job / "rank4.json").rename(job / "rank2.json")
    (job / "x").rename(job / "rank4.json")

    assert plain(discover(job, store=store)) == plain(discover(job))
    assert {"rank2.json", "rank4.json"} <= set(opened)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda _: b"",
        lambda _: b"\x00" * 1000,
        lambda _: with_checksum(msgspec.msgpack.encode(["rules", [1, 2, 3]])),
        lambda _: with_checksum(msgspec.msgpack.encode({"files": []})),
        lambda data: data[:99] + bytes([data[99] ^ 1]) + data[100:],
    ],
    ids=["cut", "empty", "zeros", "other types", "other document", "one bit"],
)
def test_damage_is_ignored_and_replaced(
    job: Path, store: Path, opened: list[str], damage: Callable[[bytes], bytes]
) -> None:
    first = plain(discover(job, store=store))
    place(store).write_bytes(damage(place(store).read_bytes()))

    assert plain(discover(job, store=store)) == first
    opened.clear()
    assert plain(discover(job, store=store)) == first
    assert opened == []


def test_other_rules_make_it_invalid(
    job: Path, store: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    discover(job, store=store)
    opened.clear()
    monkeypatch.setattr(discovery, "RULES_VERSION", discovery.RULES_VERSION + 1)

    discover(job, store=store)

    assert len(opened) >= RANKS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_another_user_wrote_is_not_believed(job: Path, store: Path, opened: list[str]) -> None:
    discover(job, store=store)
    opened.clear()
    os.chown(place(store), 65534, 65534)

    discover(job, store=store)

    assert len(opened) >= RANKS


def test_a_file_that_just_changed_is_not_kept(
    job: Path, store: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may change again within the same tick of the clock."""
    monkeypatch.setattr(discovery, "_SETTLED_NS", 3600 * 10**9)

    discover(job, store=store)

    assert not (store / FOLDER).exists()


def test_a_store_that_cannot_be_written_changes_nothing(job: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert plain(discover(job, store=tmp_path / "file" / "store")) == plain(discover(job))


def test_names_that_are_no_text_are_kept(job: Path, store: Path, opened: list[str]) -> None:
    put(job, os.fsdecode(b"rank\xff9.json"), trace_text(None, None, ts=123))
    first = plain(discover(job, store=store))
    opened.clear()

    assert plain(discover(job, store=store)) == first
    assert opened == []


def test_a_growing_file_is_noted_until_it_is_old(job: Path, store: Path) -> None:
    put(job, "rank0.json", trace_text(0, RANKS, last=False)[:-3])
    first = discover(job, store=store)
    second = discover(job, store=store)

    assert [n.code for n in first.notes].count("growing_file") == 1
    assert plain(second) == plain(first)


def test_small_directories_leave_nothing(tmp_path: Path, store: Path) -> None:
    put(tmp_path / "small", "rank0.json", trace_text(0, 1))

    discover(tmp_path / "small", store=store)

    assert not store.exists()
