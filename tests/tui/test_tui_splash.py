"""The frame before the explorer: where the explorer will be, and gone without a trace."""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
from pathlib import Path

import pytest
from explorers import Start, screen
from ptys import Program, running

import ccltui.tui.panes  # noqa: F401
from ccltui import splash
from ccltui.splash import frame, frame_lines, opens_explorer
from ccltui.tui.state.pane import panes_with_tabs
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session


class Tty:
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_only_what_opens_the_explorer_has_a_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(sys, stream, Tty())
    monkeypatch.setenv("TERM", "xterm-256color")

    assert opens_explorer(["run"])
    assert opens_explorer(["./demo", "--theme", "light"])
    assert opens_explorer(["--theme", "light", "run"])
    for words in (
        *([], ["none"], ["demo"], ["doctor", "run"], ["run", "--metric", "all"]),
        *(["run", "--metric=all"], ["--keys"], ["run", "--serve"], ["run", "-h"], ["--run"]),
    ):
        assert not opens_explorer(words), words
    monkeypatch.setenv("TERM", "dumb")
    assert not opens_explorer(["run"])


def test_without_a_terminal_there_is_none(tmp_path: Path) -> None:
    assert not opens_explorer([str(tmp_path)])


def test_it_knows_every_pane() -> None:
    panes = panes_with_tabs(Scene(Session("run")))
    assert tuple(pane.title for pane in panes) == splash.PANES
    assert tuple(pane.short_title for pane in panes) == splash.PANES_SHORT


def test_names_are_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a\x1b[31mb").mkdir()
    monkeypatch.chdir(tmp_path)

    text = frame(["a\x1b[31mb"], 80, 24)

    assert "a␛[31mb" in text
    assert "[31mb" not in text.replace("␛[31mb", "")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 50)])
async def test_the_explorer_paints_the_same_two_lines(
    start: Start, width: int, height: int
) -> None:
    app = start(lambda *_: None)
    async with app.run_test(size=(width, height)) as pilot:
        await pilot.pause()
        rows = screen(app)

    assert app.scene.session.phase == "opening"
    assert tuple(rows[:2]) == frame_lines("run-0421", width)


def slow_start(tmp_path: Path) -> list[str]:
    """The command with a first import that takes its time."""
    (tmp_path / "run").mkdir()
    code = (
        "import sys, time\n"
        "sys.argv = ['ccltui', 'run']\n"
        "from ccltui import __main__, cli\n"
        "def wait(_):\n"
        "    print('', end='', flush=True)\n"
        "    time.sleep(30)\n"
        "cli.run = wait\n"
        "sys.exit(__main__.main())\n"
    )
    return ["-c", f"import os; os.chdir({str(tmp_path)!r})\n{code}"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_before_the_explorer_gives_the_terminal_back(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with running(slow_start(tmp_path), 80, 24) as program:
        program.wait_for("[1 Over]")
        assert not echoes(program)
        time.sleep(0.1)
        os.kill(program.pid, number)
        written = program.read_to_end()

        assert written.endswith("\x1b[?25h\x1b[?1049l")
        assert program.exit_code() == code


def echoes(program: Program) -> bool:
    """Whether the terminal shows what is typed."""
    return bool(termios.tcgetattr(program.descriptor)[3] & termios.ECHO)


def test_a_wrong_command_line_can_be_read(tmp_path: Path) -> None:
    with running(["-m", "ccltui", str(tmp_path), "--theme", "pink"], 80, 24) as program:
        written = program.read_to_end()
        after = program.exit_code()

    assert after == 2
    left = written.rpartition("\x1b[?1049l")[2]
    assert "invalid choice: 'pink'" in left
