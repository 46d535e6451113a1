"""``ccltui DIR`` on a terminal: it opens, loads, reacts to a key and quits.

`test_e2e_hostile_directory` opens a directory and the demo beside files of any name,
`test_e2e_environment` the demo without a home.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path

import pytest
from shell import CCLTUI, MODULE, TIMEOUT_S
from terminal import session


def test_python_dash_m_opens_it_beside_files_of_our_names(job: Path, tmp_path: Path) -> None:
    for name in ("metrics", "parsers"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")

    with session(*MODULE, job, "--no-cache", cwd=tmp_path) as explorer:
        explorer.wait_for("4/4")
        explorer.wait_for("What costs time")
        explorer.press("q")

        assert explorer.finish() == 0


def test_what_only_numbers_heed_is_refused(job: Path) -> None:
    with session(*CCLTUI, job, "--group", "tp") as explorer:
        explorer.wait_for("--group needs --metric NAME")
        assert explorer.finish() == 2


def test_a_path_that_is_not_there_opens_no_screen(tmp_path: Path) -> None:
    with session(*CCLTUI, "dmeo", cwd=tmp_path) as explorer:
        explorer.wait_for("ccltui demo")
        assert explorer.finish() == 1
    assert "dmeo: no such file or directory" in explorer.text


def test_a_terminal_that_cannot_place_text_is_named(job: Path) -> None:
    with session(*CCLTUI, job, env={"TERM": "dumb"}) as explorer:
        explorer.wait_for("ccltui explain DIR shows what")
        assert explorer.finish() == 2
    assert "needs a terminal, and TERM=dumb cannot place text" in explorer.text


@pytest.mark.parametrize("driver", ["slim", "plain"])
def test_standard_error_may_be_a_file(driver: str, job: Path, tmp_path: Path) -> None:
    script = f'exec {shlex.join(CCLTUI)} "$0" --driver {driver} 2>"$1"'
    errors = tmp_path / "errors"
    with session("sh", "-c", script, job, errors) as explorer:
        explorer.wait_for("What costs time")
        explorer.press("q")
        assert explorer.finish() == 0
    assert errors.read_text() == ""


def test_it_outlives_the_process_that_computes_but_not_the_other_way(job: Path) -> None:
    with session(*CCLTUI, job) as explorer:
        explorer.wait_for("4/4")
        explorer.wait_for("What costs time")
        (first,) = computing(explorer.process.pid)
        os.kill(first, signal.SIGKILL)
        explorer.wait_for("the computing process has ended (out of memory?)")

        explorer.press("6")
        explorer.wait_for("slowest first")
        (second,) = computing(explorer.process.pid)
        assert second != first

        explorer.process.kill()
        explorer.finish()
        end = time.monotonic() + TIMEOUT_S
        while Path(f"/proc/{second}/cmdline").exists() and cmdline(second):
            assert time.monotonic() < end
            time.sleep(0.05)


def computing(parent: int) -> list[int]:
    """Processes that the explorer has spawned and that still run; those that read have ended."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        text = " ".join(
            file.read_text() for file in Path(f"/proc/{parent}/task").glob("*/children")
        )
        found = [int(pid) for pid in text.split() if "spawn_main" in cmdline(int(pid))]
        if len(found) == 1:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def cmdline(pid: int) -> str:
    """The command of a process, "" of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except OSError:
        return ""
