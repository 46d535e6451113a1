"""Exit status and messages of every way in which a command ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ccltui import exit_codes
from ccltui.parsers.errors import CardError, GrammarError, NotFoundError
from ccltui.process import run
from ccltui.report.diagnostics.crash_report import crash_reports


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
