"""Exit status and messages of every way in which a command ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ccltui import exit_codes
from ccltui.parsers.errors import CardError, GrammarError, NotFoundError
from ccltui.process import run
from ccltui.report.crash_report import crash_reports


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (NotFoundError("no such directory", path="x"), 1, "ccltui: x: no such directory\n"),
        (CardError("bad", path="c.yaml", line=3, column=7), 1, "ccltui: c.yaml:3:7: bad\n"),
        (GrammarError("Illegal window"), 2, "ccltui: Illegal window\n"),
        (
            PermissionError(13, "Permission denied", "f"),
            1,
            "ccltui: f: Permission denied\n",
        ),
        (OSError("standard output is closed"), 1, "ccltui: standard output is closed\n"),
        (
            ValueError("shape\n(3,)"),
            1,
            "ccltui: internal error: ValueError: shape\\x0a(3,); --debug shows where, "
            "please report it with {crash}\n",
        ),
        (MemoryError(), 1, "ccltui: not enough memory (MemoryError)\n"),
        (KeyboardInterrupt(), 130, "ccltui: interrupted\n"),
        (SystemExit(0), 0, ""),
        (SystemExit(2), 2, ""),
    ],
)
def test_every_error_is_one_line_and_a_status(
    error: BaseException,
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(tmp_path))

    def command(_: Sequence[str]) -> int:
        raise error

    assert run(command, []) == status
    crashes = crash_reports()
    crash = crashes[0] if crashes else None
    assert capsys.readouterr().err == message.replace("{crash}", str(crash))
    assert len(crashes) == message.count("{crash}")


def test_debug_adds_the_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(tmp_path))

    def command(_: Sequence[str]) -> int:
        raise ValueError("here")

    assert run(command, ["DIR", "--debug"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 3), 3),
        ((3, 4), 4),
        ((4, 1, 3), 1),
        ((1, 130), 130),
    ],
)
def test_the_worst_status_wins(codes: tuple[int, ...], status: int) -> None:
    assert exit_codes.worst(*codes) == status


IN_A_CALLBACK = """
import os, signal, sys, time, weakref
from ccltui.process import run

class Thing: pass

def command(arguments):
    thing = Thing()
    callback = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.{name}))
    del thing  # Python prints and forgets what is raised in there
    time.sleep(30)
    return 0

sys.exit(run(command, []))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_in_a_callback_of_python_ends_the_command_too(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CALLBACK.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )

    assert done.returncode == 128 + getattr(signal, name)
    assert done.stderr == f"ccltui: ended by {name}\n"
