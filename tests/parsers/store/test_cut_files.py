"""A file of columns that is cut while it is mapped ends the process with one line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

_READ_AFTER_CUT = """\
import os, sys
from ccltui.parsers.store.stored_columns import map_file
descriptor = os.open(sys.argv[1], os.O_RDWR)
column = map_file(descriptor, 1 << 20)
assert int(column[-1]) == 1
os.ftruncate(descriptor, int(sys.argv[2]))
print(column.sum())
"""
needs_compiled_code = pytest.mark.skipif(
    importlib.util.find_spec("ccltui.parsers.store._cut_files") is None,
    reason="the handler is not compiled here",
)


def read_after_cut(tmp_path: Path, size: int) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "columns.bin"
    path.write_bytes(b"\1" * (1 << 20))
    command = [sys.executable, "-c", _READ_AFTER_CUT, str(path), str(size)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)


@needs_compiled_code
@pytest.mark.parametrize("size", [0, 1 << 19])
def test_a_cut_file_is_no_bus_error_and_gives_no_number(tmp_path: Path, size: int) -> None:
    done = read_after_cut(tmp_path, size)

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "ccltui: a file of the store was cut while it was in use; run the command again\n"
    )


def test_a_file_that_keeps_its_size_is_read(tmp_path: Path) -> None:
    done = read_after_cut(tmp_path, 1 << 20)

    assert (done.returncode, done.stdout) == (0, f"{1 << 20}\n")


@needs_compiled_code
def test_a_bus_error_of_another_kind_ends_the_process_as_usual() -> None:
    code = (
        "import os, signal\n"
        "from ccltui.parsers.store._cut_files import end_in_order\n"
        "end_in_order()\n"
        "os.kill(os.getpid(), signal.SIGBUS)\n"
        "os.kill(os.getpid(), signal.SIGBUS)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=30)

    assert done.returncode == -7
