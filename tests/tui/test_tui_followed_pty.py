"""``ccltui DIR --follow`` in a real terminal: new files are shown, and every end is clean."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from ptys import running

from ccltui import exit_codes
from ccltui.demo import Spec, write_job

pytestmark = pytest.mark.long

_LONGEST_S = 20.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("followed") / "job"
    write_job(path, Spec.quiet(tp=2, pp=1, steps=2, layers=1, micro_batches=2))
    return path


def descendants(pid: int) -> set[int]:
    """Processes that a process started, and those that these started."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found |= {child} | descendants(child)
    return found


def has_ended(pid: int) -> bool:
    """Whether a process is no more, or only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_ended(pids: set[int]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while left := {pid for pid in pids if not has_ended(pid)}:
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.05)


ALERT = ("--alert", "coll_call_num > 1")


@pytest.mark.parametrize(
    ("end", "alert", "code"),
    [
        (None, (), exit_codes.OK),
        (signal.SIGTERM, (), 128 + signal.SIGTERM),  # of all signals: test_tui_crash
        (None, ALERT, exit_codes.ALERT),
        (signal.SIGTERM, ALERT, exit_codes.ALERT),
    ],
)
def test_new_files_are_shown_and_nothing_is_left(
    end: signal.Signals | None, alert: tuple[str, ...], code: int, whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "job"
    follow = ("--follow", "--interval", "0.1", "--store", str(tmp_path / "store"), *alert)
    with running(["-m", "ccltui", str(path), *follow], 120, 30) as program:
        program.wait_for("looked ")
        for place, name in enumerate(sorted(one.name for one in whole.glob("kineto*"))[:2]):
            path.mkdir(exist_ok=True)
            shutil.copy(whole / name, path)
            program.wait_for(f"{place + 1}/{place + 1} ")
        if alert:
            program.wait_for("! coll_call_num > 1")
        started = descendants(program.pid)
        assert started
        if end is None:
            os.write(program.descriptor, b"q")
        else:
            os.kill(program.pid, end)
        written = program.read_to_end()

        assert "\x1b[?1049l" in written
        assert program.exit_code() == code
        wait_until_ended(started)
