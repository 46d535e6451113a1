"""Test temporary folders that the next process removes when theirs was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ccltui.parsers.system.scratch_folder import remove_abandoned, scratch_folder

HOLDER = """
import sys, time
from pathlib import Path
from ccltui.parsers.system.scratch_folder import scratch_folder
with scratch_folder("some-", Path(sys.argv[1])) as folder:
    (folder / "columns.bin").write_bytes(b"x" * 1000)
    print(folder, flush=True)
    time.sleep(60)
"""


def test_it_is_private_and_gone_in_the_end(tmp_path: Path) -> None:
    with scratch_folder("some-", tmp_path) as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "file").write_text("text")
    assert list(tmp_path.iterdir()) == []


def test_another_error_removes_it_too(tmp_path: Path) -> None:
    with pytest.raises(SystemExit), scratch_folder("some-", tmp_path):
        raise SystemExit(143)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_goes_and_that_of_a_running_one_stays(
    tmp_path: Path,
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        remove_abandoned(tmp_path, "some-")
        assert (folder / "columns.bin").exists()
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()
    assert folder.exists()

    with scratch_folder("some-", tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own]


def test_folders_of_others_stay(tmp_path: Path) -> None:
    """Those of another host, whose locks may not be seen here, links, and other names."""
    with scratch_folder("some-", tmp_path) as own:
        name = own.name.rsplit("-", 1)[0]
    (tmp_path / "some-00000000-abc").mkdir()
    (tmp_path / "else").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / f"{name}-link").symlink_to(tmp_path / "target")

    remove_abandoned(tmp_path, "some-")

    assert {path.name for path in tmp_path.iterdir()} == {
        "some-00000000-abc",
        "else",
        "target",
        f"{name}-link",
    }
