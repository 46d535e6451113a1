"""Loops, pipes, unreadable and strangely named things: listed with a reason, never in the way."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard
from found_files import by_path, codes, put, trace_text

import ccltui.parsers.discovery.walk
import ccltui.parsers.text.compression
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.safe_text import natural_key, printable


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A directory with one good trace, to which each test adds something bad."""
    put(tmp_path, "rank0.json", trace_text(0, 1))
    return tmp_path


def problems(root: Path) -> dict[str, str | None]:
    discovery = discover(root)
    assert [f.path for f in discovery.choose().files] == ["rank0.json"]
    return {f.path: f.problem for f in discovery.files if f.path != "rank0.json"}


def notes(root: Path) -> list[tuple[str, str]]:
    discovery = discover(root)
    assert [f.path for f in discovery.choose().files] == ["rank0.json"]
    return [(note.code, note.message) for note in discovery.notes]


def test_dangling_links_and_links_to_themselves(job: Path) -> None:
    (job / "a.json").symlink_to("absent.json")
    (job / "b.json").symlink_to("b.json")
    (job / "c.json").symlink_to("d.json")
    (job / "d.json").symlink_to("c.json")
    (job / "e.json").symlink_to("rank0.json/x")

    assert problems(job) == {
        "a.json": "a link to nothing: absent.json is not there",
        "b.json": "a link that leads back to itself",
        "c.json": "a link that leads back to itself",
        "d.json": "a link that leads back to itself",
        "e.json": "a link to nothing: rank0.json/x is not there",
    }


def test_loops_of_folders(job: Path) -> None:
    (job / "sub").mkdir()
    (job / "sub" / "up").symlink_to("..")
    (job / "sub" / "here").symlink_to(".")
    (job / "root").symlink_to("/")

    assert sorted(notes(job)) == [
        ("symlink_loop", "root: a link to a folder above it, not followed"),
        ("symlink_loop", "sub/here: a link to a folder above it, not followed"),
        ("symlink_loop", "sub/up: a link to a folder above it, not followed"),
    ]


def test_a_farm_of_links_is_walked_once(job: Path) -> None:
    for level in range(6):
        (job / f"level{level}").mkdir()
    for level in range(5):
        for link in range(20):
            (job / f"level{level}" / f"link{link}").symlink_to(f"../level{level + 1}")
    put(job, "level5/a.log", "x\n")

    discovery = discover(job)

    assert [f.path for f in discovery.files] == ["level5/a.log", "rank0.json"]
    assert codes(discovery) == ["linked_folder"] * 100


def test_pipes_and_sockets_are_never_opened(job: Path) -> None:
    os.mkfifo(job / "rank1.json")
    (job / "rank2.json").symlink_to("rank1.json")
    (job / "null.json").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(job / "s"))

        found = problems(job)

    assert found == {
        "null.json": "a device: never opened",
        "rank1.json": "a named pipe: never opened",
        "rank2.json": "a named pipe: never opened",
        "s": "a socket: never opened",
    }


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="not a regular file"):
        ccltui.parsers.text.compression.open_regular(str(tmp_path / "pipe"))


def test_unreadable_files_and_folders(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(job, "rank1.json", trace_text(1, 2))
    put(job, "locked/rank2.json", trace_text(2, 2))
    real_open, real_scandir = ccltui.parsers.text.compression.open_regular, os.scandir

    def open_unless_locked(path: str) -> BinaryIO:
        if path.endswith("rank1.json"):
            raise PermissionError(13, "Permission denied", path)
        return real_open(path)

    def list_unless_locked(path: str) -> object:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return real_scandir(path)

    monkeypatch.setattr(ccltui.parsers.text.compression, "open_regular", open_unless_locked)
    monkeypatch.setattr("os.scandir", list_unless_locked)

    assert problems(job) == {"rank1.json": "cannot be read: Permission denied"}
    assert notes(job) == [("unreadable_folder", "locked: cannot be listed: Permission denied")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions_of_the_system(job: Path) -> None:
    put(job, "rank1.json", trace_text(1, 2)).chmod(0)

    assert problems(job) == {"rank1.json": "cannot be read: Permission denied"}


def test_a_root_that_cannot_be_listed(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> object:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.scandir", refuse)

    with pytest.raises(TraceError, match="cannot be opened: Permission denied") as raised:
        discover(job)
    assert not isinstance(raised.value, NotFoundError)


def test_a_path_that_is_no_path() -> None:
    with pytest.raises(TraceError):
        discover("a\0b")
    with pytest.raises(TraceError):
        discover("x" * 5000)


def test_a_root_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    (found,) = discover(tmp_path / "pipe").files

    assert found.problem == "a named pipe: never opened"


def test_hidden_and_deep_folders_are_noted(job: Path) -> None:
    put(job, ".git/rank1.json", trace_text(1, 2))
    put(job, "a/b/c/rank2.json", trace_text(2, 2))
    put(job, ".rank3.json.tmp", trace_text(3, 2))

    discovery = discover(job, max_depth=2)

    assert [f.path for f in discovery.choose().files] == ["rank0.json"]
    assert [(n.code, n.message) for n in discovery.notes] == [
        ("hidden_folder", ".git: a hidden folder, not searched"),
        ("depth_limit", "a/b/c: more than 2 levels down, not searched"),
    ]
    assert by_path(discovery)[".rank3.json.tmp"].problem == "a hidden file: not read"


def test_six_levels_are_searched_by_default(tmp_path: Path) -> None:
    put(tmp_path, "1/2/3/4/5/6/rank0.json", trace_text(0, 1))
    put(tmp_path, "1/2/3/4/5/6/7/rank1.json", trace_text(1, 1))

    discovery = discover(tmp_path)

    assert [f.path for f in discovery.files] == ["1/2/3/4/5/6/rank0.json"]
    assert codes(discovery) == ["depth_limit"]


def test_names_that_act_on_a_terminal(job: Path) -> None:
    (job / "\x1b[31mrank1\x1b[0m.json").write_bytes(trace_text(1, 2))
    (job / "rank2\u202egnp.json").write_bytes(trace_text(2, 2))
    (job / "new\nline.log").write_bytes(b"x\n")
    (job / "back\\slash.log").write_bytes(b"x\n")
    with open(os.fsencode(job) + b"/rank3_\xff\xfe.json", "wb") as file:  # noqa: PTH123
        file.write(trace_text(3, 2))

    discovery = discover(job)

    found = by_path(discovery)
    assert sorted(found) == [
        "\\x1b[31mrank1\\x1b[0m.json",
        "back\\\\slash.log",
        "new\\x0aline.log",
        "rank0.json",
        "rank2\\u202egnp.json",
        "rank3_\\xff\\xfe.json",
    ]
    assert [f.rank for f in discovery.choose().files] == [0, 1, 2, 3]
    for entry in discovery.files:
        assert entry.path.isprintable()
        assert os.path.exists(entry.real_path)  # noqa: PTH110 - a path with lone surrogates
    assert all(note.message.isprintable() for note in discovery.captures[0].notes)


def test_a_link_name_that_acts_on_a_terminal(job: Path) -> None:
    (job / "a.json").symlink_to("\x1b[2J")

    assert problems(job) == {"a.json": "a link to nothing: \\x1b[2J is not there"}


def test_keys_that_act_on_a_terminal(job: Path) -> None:
    put(job, "a.json", '{"\\u001b[2J": 1, "\x1b[31m": 2}')

    assert problems(job) == {
        "a.json": "JSON, but nothing known here; its keys: \\\\u001b[2J and \\x1b[31m"
    }


def test_too_many_files(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        put(job, f"x{number}.log", "x\n")
    monkeypatch.setattr(ccltui.parsers.discovery.walk, "MAX_FILES", 5)

    discovery = discover(job)

    assert len(discovery.files) == 5
    assert codes(discovery) == ["too_many_files"]


def test_bombs_cost_little(job: Path) -> None:
    deep = b'{"a":' * 50_000
    nested = b"[" * 60_000
    put(job, "deep.json", deep)
    put(job, "nested.json", b'{"distributedInfo":' + nested)
    put(job, "quotes.json", b'{"' + b"\\" * 60_001 + b'"')
    zeros = zstandard.compress(b'{"traceEvents":[' + b" " * (64 << 20) + b"]}")
    (job / "bomb1.json.zst").write_bytes(zeros)
    (job / "bomb2.json.zst").write_bytes(zeros)

    discovery = discover(job)

    assert by_path(discovery)["bomb1.json.zst"].duplicate_of is None  # not read to its end
    assert codes(discovery) == ["growing_file", "rank_unknown"]


def test_a_key_that_a_file_repeats_thousands_of_times_costs_little(job: Path) -> None:
    head = '{"traceEvents":[{"ph":"X","ts":1}' + " " * (1 << 16) + "],"
    put(job, "many.json", head + '"distributedInfo":1,' * 3000 + '"a":1}}')
    put(job, "last.json", head + '"distributedInfo":{"rank":1,"world_size":2}}')

    begun = time.process_time()
    found = by_path(discover(job))
    assert time.process_time() - begun < 4

    assert (found["last.json"].rank, found["last.json"].world_size) == (1, 2)
    assert found["many.json"].rank is None


def test_a_damaged_database_is_listed(job: Path) -> None:
    path = job / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER)")
    connection.close()
    data = bytearray(path.read_bytes())
    data[100:200] = b"\xff" * 100
    path.write_bytes(data)

    (problem,) = problems(job).values()

    assert problem is not None
    assert problem.startswith("an SQLite file that cannot be read")


def test_a_trace_without_an_end_that_was_just_written(job: Path) -> None:
    put(job, "rank1.json", trace_text(1, 2)[:-3])

    discovery = discover(job)

    assert [(n.code, n.message) for n in discovery.notes] == [
        ("growing_file", "rank1.json: has no end yet, perhaps still written")
    ]

    old = time.time() - 1000
    os.utime(job / "rank1.json", (old, old))
    assert discover(job).notes == ()


def test_a_file_that_vanishes_during_the_walk(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(job, "rank1.json", trace_text(1, 2))
    real = ccltui.parsers.discovery.walk._entry

    def vanish(file: ccltui.parsers.discovery.walk._File, status: os.stat_result) -> object:
        if file.path == "rank1.json":
            Path(file.real_path).unlink(missing_ok=True)
        return real(file, status)

    monkeypatch.setattr(ccltui.parsers.discovery.walk, "_entry", vanish)

    assert problems(job) == {"rank1.json": "cannot be read: No such file or directory"}


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain name.json", "plain name.json"),
        ("käse→", "käse→"),
        ("\x1b]0;x\x07", "\\x1b]0;x\\x07"),
        ("a\\x1b", "a\\\\x1b"),
        ("\x85\u2028\U000e0001", "\\u0085\\u2028\\U000e0001"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\xa0", "\\u00a0"),
    ],
)
def test_shown(text: str, safe: str) -> None:
    assert printable(text) == safe
    safe.encode()


def test_natural_order() -> None:
    names = ["a10", "a9", "a09", "a1b2", "a1b10", "a", "b/2", "b/10", "b", "9", "10", "9" * 5000]

    assert sorted(names, key=natural_key) == [
        "9",
        "10",
        "9" * 5000,
        "a",
        "a1b2",
        "a1b10",
        "a09",
        "a9",
        "a10",
        "b",
        "b/2",
        "b/10",
    ]


def test_a_link_to_a_large_tree_is_searched_to_a_limit(
    job: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Level by level, so that traces at the top of it are found; the directory itself has none."""
    monkeypatch.setattr(ccltui.parsers.discovery.walk, "MAX_LINKED", 50)
    large = tmp_path_factory.mktemp("elsewhere")
    for folder in range(10):
        (large / f"d{folder}").mkdir(parents=True)
        for file in range(20):
            (large / f"d{folder}" / f"f{file}.txt").write_text("text")
    (large / "rank7.json").write_text((job / "rank0.json").read_text())
    for file in range(60):
        (job / f"own{file}.txt").write_text("text")
    (job / "link").symlink_to(large)

    discovery = discover(job)

    paths = {file.path for file in discovery.files}
    assert "link/rank7.json" in paths
    assert sum(path.startswith("link/") for path in paths) < 50
    assert sum(path.startswith("own") for path in paths) == 60
    (note,) = [note for note in discovery.notes if note.code == "linked_folder"]
    assert note.message == (
        "link: links lead out of the directory, and of what is there only the first 50 files and "
        "folders were looked at"
    )
