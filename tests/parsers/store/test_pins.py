"""Entries that processes of other nodes have mapped are not removed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store import column_store
from ccltui.parsers.store.column_store import EXPIRY_S, FOLDER, Store, is_local, pin, pinned

TRACE = (
    '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, '
    '"dur": 2, "args": {"stream": 7}}]}'
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "t.json").write_text(TRACE)
    store = Store(tmp_path / "store", limit_bytes=1)
    for key in ("a", "b", "b-1"):
        store.write(key, read_kineto(tmp_path / "t.json"))
    return store


def listed(store: Store, name: str, keys: str) -> Path:
    folder = store.directory / FOLDER
    folder.mkdir(exist_ok=True)
    place = folder / name
    place.write_text(keys)
    return place


def entries(store: Store) -> list[str]:
    return sorted(one.name for one in store.directory.iterdir() if one.name != FOLDER)


def test_what_another_node_uses_stays_with_all_of_its_ranks(store: Store) -> None:
    listed(store, "othernode-1-x", "b\nnone")

    store.trim()

    assert entries(store) == ["b", "b-1"]


def test_what_this_node_uses_may_go_as_its_kernel_keeps_the_bytes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_store, "_node", lambda: "thisnode")
    listed(store, "thisnode-1-x", "b")
    trace = store.load("b")
    assert trace is not None

    store.trim()

    assert entries(store) == []
    assert trace.group("gpu").start_ns.tolist() == [1000]


def test_a_list_that_nobody_touches_any_more_expires(store: Store) -> None:
    place = listed(store, "othernode-1-x", "b")
    old = time.time() - EXPIRY_S - 60
    os.utime(place, (old, old))

    store.trim()

    assert entries(store) == []
    assert not place.exists()


def test_lists_of_garbage_keep_nothing(store: Store) -> None:
    place = listed(store, "othernode-1-x", "")
    place.write_bytes(bytes(range(256)) * 50)
    (store.directory / FOLDER / "folder").mkdir()

    assert not pinned(store.directory) & {"a", "b"}
    store.trim()
    assert entries(store) == []


_PIN = """\
import sys
from pathlib import Path
from ccltui.parsers.store import column_store
column_store.is_local = lambda _: False
column_store.pin(Path(sys.argv[1]), ["a"])
print(*[one.read_text() for one in (Path(sys.argv[1]) / column_store.FOLDER).iterdir()], flush=True)
"""


def test_a_process_lists_what_it_uses_until_it_ends(store: Store) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PIN, str(store.directory)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.split() == ["a"]
    assert list((store.directory / FOLDER).iterdir()) == []


def test_nothing_is_listed_on_a_file_system_of_this_node(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_store, "is_local", lambda _: True)

    pin(store.directory, ["a"])

    assert not (store.directory / FOLDER).exists()


@pytest.mark.parametrize(
    ("types", "expected"), [(["ext4"], True), (["nfs4"], False), (["tmpfs", "nfs4"], False)]
)
def test_the_type_of_the_mount_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: list[str], expected: bool
) -> None:
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "".join(f"36 35 {number} / /m rw,noatime master:1 - {one} source rw\n" for one in types)
        + "broken line\n37 35 0:99999 / /n rw - nfs4 s rw\n"
    )
    monkeypatch.setattr(column_store, "_MOUNTS", mounts)

    assert is_local(tmp_path / "not" / "made" / "yet") is expected
