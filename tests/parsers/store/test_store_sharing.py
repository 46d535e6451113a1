"""A store that is moved, shared with a group, or has a limit of its own."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ccltui.parsers.errors import GrammarError
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.cache_place import default_cache_dir, parse_size, store_limit
from ccltui.parsers.store.column_store import Store

TRACE = (
    '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, '
    '"dur": 2, "args": {"stream": 7}}]}'
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.json"
    path.write_text(TRACE)
    return path


def test_a_file_that_moved_has_the_same_key(tmp_path: Path, source: Path) -> None:
    key = Store(tmp_path / "store").key(source, 1)
    elsewhere = tmp_path / "other" / "renamed.json"
    elsewhere.parent.mkdir()
    shutil.copy2(source, elsewhere)
    link = tmp_path / "link.json"
    link.symlink_to(elsewhere)

    assert Store(tmp_path / "store").key(elsewhere, 1) == key
    assert Store(tmp_path / "store").key(link, 1) == key


def test_files_of_one_size_and_content_written_at_different_times_differ(
    tmp_path: Path, source: Path
) -> None:
    copy = tmp_path / "copy.json"
    shutil.copyfile(source, copy)
    os.utime(copy, ns=(1, 2))

    assert Store(tmp_path).key(copy, 1) != Store(tmp_path).key(source, 1)


def test_entries_of_a_shared_store_are_readable_by_its_group(tmp_path: Path, source: Path) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    directory.chmod(0o2770)

    assert Store(directory).save("k", read_kineto(source))

    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in (directory / "k").iterdir()}
    assert set(modes.values()) == {0o640}
    assert stat.S_IMODE((directory / "k").stat().st_mode) == 0o2750


def test_entries_of_a_store_that_is_not_shared_are_private(tmp_path: Path, source: Path) -> None:
    Store(tmp_path / "store").save("k", read_kineto(source))

    assert stat.S_IMODE((tmp_path / "store" / "k").stat().st_mode) == 0o700


_OPEN_AS_OTHER = """\
import os, sys
from pathlib import Path
from ccltui.parsers.store.column_store import Store
Store(Path(sys.argv[1])).load("k")  # imports all that the other user may not be able to read
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(4321)
trace = Store(Path(sys.argv[1])).load("k")
print("none" if trace is None else trace.group("gpu").start_ns.tolist())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: opens a store as another user")
@pytest.mark.parametrize(
    ("mode", "group", "expected"),
    [
        (0o2770, 5432, "[1000]"),  # a member of the group
        (0o2770, 5433, "none"),  # somebody else: cannot enter
        (0o0777, 5432, "none"),  # not shared: the entry is another user's
        (0o2777, 5432, "none"),  # everybody may write there
    ],
)
def test_who_reads_a_store_of_another_user(
    tmp_path: Path, source: Path, mode: int, group: int, expected: str
) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    os.chown(directory, 6543, 5432)
    directory.chmod(mode)
    assert Store(directory).save("k", read_kineto(source))
    for path in (directory / "k", *(directory / "k").iterdir()):
        os.chown(path, 6543, 5432)
        path.chmod(0o2750 if path.is_dir() else 0o640)
    for above in (tmp_path, *tmp_path.parents[:-1]):
        above.chmod(above.stat().st_mode | 0o011)

    done = subprocess.run(
        [sys.executable, "-c", _OPEN_AS_OTHER, str(directory), str(group)],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == expected, done.stderr


def test_the_place_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLTUI_CACHE_DIR", "/old")
    monkeypatch.delenv("CCLTUI_STORE", raising=False)
    assert default_cache_dir() == Path("/old")
    monkeypatch.setenv("CCLTUI_STORE", "/group/store")
    assert default_cache_dir() == Path("/group/store")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("512", 512), ("500M", 500 << 20), ("20G", 20 << 30), ("2TiB", 2 << 40), ("1kb", 1024)],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1G", "1.5G", "G", "10X", "1 G G"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(GrammarError, match="is not a size above 0"):
        parse_size(text)


def test_the_limit_is_that_of_the_environment(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CCLTUI_STORE_LIMIT", raising=False)
    assert store_limit() == 20 << 30
    store = Store(tmp_path / "store")
    store.save("k", read_kineto(source))

    monkeypatch.setenv("CCLTUI_STORE_LIMIT", "1")
    Store(tmp_path / "store").trim()

    assert list((tmp_path / "store").iterdir()) == []
    monkeypatch.setenv("CCLTUI_STORE_LIMIT", "much")
    with pytest.raises(GrammarError, match="CCLTUI_STORE_LIMIT: 'much' is not a size"):
        store_limit()
