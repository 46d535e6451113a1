"""Writers of the store that meet, that find no room, and that are killed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.store.store_entry import SCRATCH_PREFIX

EVENTS = 3000
KILLED = """
import os, signal, sys
from pathlib import Path
import ccltui.parsers.store.column_store
from ccltui.parsers.kineto.kineto_reader import read_kineto

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

ccltui.parsers.store.column_store.msgspec.json.encode = killed  # the manifest comes last
ccltui.parsers.store.column_store.Store(Path(sys.argv[1])).save("k", read_kineto(Path(sys.argv[2])))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.json"
    kernel = '{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":%d}'
    body = ",".join(kernel % (n % 7, n, n % 11) for n in range(EVENTS))
    path.write_text(f'{{"traceEvents":[{body}]}}')
    return path


def scratch(store: Store) -> list[Path]:
    return sorted(store.directory.glob(f"{SCRATCH_PREFIX}*"))


def test_writers_that_meet_leave_one_whole_entry(tmp_path: Path, source: Path) -> None:
    store, trace = Store(tmp_path / "store"), read_kineto(source)
    together = threading.Barrier(6)
    saved: list[bool] = []
    seen: list[int] = []

    def write() -> None:
        together.wait()
        saved.append(store.save("k", trace))

    def read() -> None:
        together.wait()
        for _ in range(200):
            found = store.load("k")
            if found is not None:
                seen.append(len(found.group("gpu")))

    threads = [threading.Thread(target=work) for work in (write, write, write, write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert saved == [True] * 4
    assert set(seen) <= {EVENTS}
    assert [folder.name for folder in store.directory.iterdir()] == ["k"]
    loaded = store.load("k")
    assert loaded is not None
    assert loaded.group("gpu").start_ns.tolist() == [1000 * n for n in range(EVENTS)]


@pytest.fixture
def no_room() -> Iterator[None]:
    """Files may have 20,000 bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_while_columns_are_written_leaves_nothing(
    tmp_path: Path, source: Path, request: pytest.FixtureRequest
) -> None:
    store, trace = Store(tmp_path / "store"), read_kineto(source)
    request.getfixturevalue("no_room")

    assert not store.save("k", trace)

    assert list(store.directory.iterdir()) == []
    assert store.load("k") is None


def test_a_writer_that_is_killed_leaves_no_entry_and_its_scratch_goes(
    tmp_path: Path, source: Path
) -> None:
    store = Store(tmp_path / "store")

    ended = subprocess.run(
        [sys.executable, "-c", KILLED, store.directory, source], capture_output=True, check=False
    )

    assert ended.returncode == -signal.SIGKILL
    (left,) = scratch(store)
    assert [file.name for file in left.iterdir()] == ["columns.bin"]
    assert store.load("k") is None
    assert store.save("k", read_kineto(source))
    store.trim()
    assert [folder.name for folder in store.directory.iterdir()] == ["k"]


@pytest.mark.parametrize("place", [0, -1])
def test_other_bytes_of_the_same_size_and_time_have_another_key(source: Path, place: int) -> None:
    store, status = Store(source.parent), source.stat()
    key = store.key(source, 1)

    changed = bytearray(source.read_bytes())
    changed[place] ^= 1
    source.write_bytes(changed)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert source.stat().st_size == status.st_size
    assert store.key(source, 1) != key
