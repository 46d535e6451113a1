"""However the explorer ends, the terminal is as before and nobody sees a traceback."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from ptys import HERE, Program, running

pytestmark = pytest.mark.long

BROKEN = """
import os, sys
os.chdir({folder!r})
os.environ["CCLTUI_CACHE_DIR"] = {folder!r} + "/cache"
sys.argv = ["ccltui", "run", "--driver", {driver!r}, *{more!r}]
from ccltui import __main__
from ccltui.tui import app
def broken(self, *_, **__):
    raise RuntimeError("on purpose\\x1b[31m")
app.Explorer.{method} = broken
sys.exit(__main__.main())
"""


def broken(tmp_path: Path, method: str, driver: str = "slim", *more: str) -> list[str]:
    """The command on an empty directory, with a method that raises."""
    (tmp_path / "run").mkdir()
    code = BROKEN.format(folder=str(tmp_path), driver=driver, method=method, more=list(more))
    return ["-c", code]


def is_sane(program: Program) -> bool:
    """Whether the terminal echoes and makes lines of what is typed, as it did before."""
    flags = termios.tcgetattr(program.descriptor)[3]
    return bool(flags & termios.ECHO and flags & termios.ICANON and flags & termios.ISIG)


def end_of(program: Program) -> str:
    """What is written after the terminal was given back, all modes off."""
    written = program.read_to_end()
    for mode in ("\x1b[?25h", "\x1b[?1004l", "\x1b[?2004l", "\x1b[?1049l"):
        assert mode in written, mode
    assert written.rfind("\x1b[?1000l") >= written.rfind("\x1b[?1000h")
    return re.sub(r"\x1b\[[?<>]?[\d;]*[a-zA-Z]", "", written.rpartition("\x1b[?1049l")[2])


@pytest.mark.parametrize("driver", ["slim", "plain"])
def test_a_crash_under_a_key_is_one_line(tmp_path: Path, driver: str) -> None:
    with running(broken(tmp_path, "on_key", driver), 80, 24) as program:
        program.wait_for("No trace")
        os.write(program.descriptor, b"j")
        after = end_of(program)

        assert program.exit_code() == 1
    (line,) = [line for line in after.splitlines() if line]
    (crash,) = (tmp_path / "cache").glob("crash-*.txt")
    assert line == (
        "ccltui: internal error: RuntimeError: on purpose\\x1b[31m; --debug shows where, "
        f"please report it with {crash}"
    )
    assert "on purpose" not in crash.read_text()


@pytest.mark.parametrize("driver", ["slim", "plain"])
def test_no_byte_ends_it(tmp_path: Path, driver: str) -> None:
    (tmp_path / "run").mkdir()
    with running(["-m", "ccltui", str(tmp_path / "run"), "--driver", driver], 80, 24) as program:
        program.wait_for("No trace")
        for odd in (
            b"\xff",
            b"caf\xe9",
            b"\x1b[M \xff\xfe",
            b"\x1b[99999999999;1u",
            b"\x1b[55296;1u",
        ):
            os.write(program.descriptor, odd)
            program.drain(0.2)
            assert not program.has_ended(), odd
        os.write(program.descriptor, b"/\xff\xe9\x1b[27u?")
        program.drain(0.2)
        os.write(program.descriptor, b"qqq")
        after = end_of(program)

        assert program.exit_code() in (0, 1)  # nothing was there to open
    assert after.strip() == ""


@pytest.mark.parametrize("driver", ["slim", "plain"])
@pytest.mark.parametrize("broken_in", ["TerminalInput.messages", "read_terminal"])
def test_a_crash_of_a_thread_too(tmp_path: Path, driver: str, broken_in: str) -> None:
    arguments = broken(tmp_path, "on_key", driver)
    patch = f"from ccltui.tui.terminal import driver\ndriver.{broken_in} = broken"
    arguments[1] = arguments[1].replace("app.Explorer.on_key = broken", patch)
    with running(arguments, 80, 24) as program:
        if broken_in != "read_terminal":
            program.wait_for("No trace")
            os.write(program.descriptor, b"j")
        after = end_of(program)

        assert program.exit_code() == 1
    assert "internal error: RuntimeError: on purpose" in after
    assert "Traceback" not in after


def test_a_crash_at_the_start_too(tmp_path: Path) -> None:
    with running(broken(tmp_path, "_show"), 80, 24) as program:
        after = end_of(program)

        assert program.exit_code() == 1
    assert "internal error: RuntimeError: on purpose" in after
    assert "Traceback" not in after


def test_debug_shows_where(tmp_path: Path) -> None:
    with running(broken(tmp_path, "on_key", "slim", "--debug"), 80, 24) as program:
        program.wait_for("No trace")
        os.write(program.descriptor, b"j")
        after = end_of(program)

        assert program.exit_code() == 1
    assert "Traceback (most recent call last)" in after
    assert "locals" not in after


@pytest.mark.parametrize(
    ("driver", "number", "code"),
    [
        ("slim", signal.SIGTERM, 143),
        ("slim", signal.SIGHUP, 129),
        ("slim", signal.SIGINT, 130),
        ("slim", None, 0),
        ("plain", signal.SIGTERM, 143),  # what ends the program is the same for both drivers
        ("plain", None, 0),
    ],
)
def test_signals_give_the_terminal_back(
    driver: str, number: signal.Signals | None, code: int
) -> None:
    with running([str(HERE / "fake_app.py"), driver], 80, 24) as program:
        program.wait_for("What costs time")
        if number is None:
            os.write(program.descriptor, b"q")
        else:
            os.kill(program.pid, number)
        after = end_of(program)

        assert program.exit_code() == code
    assert after.strip() == ""


def test_suspended_it_gives_the_terminal_back_and_takes_it_again() -> None:
    with running([str(HERE / "fake_app.py"), "slim"], 80, 24) as program:
        program.wait_for("What costs time")
        before = program.terminal.text()
        os.write(program.descriptor, b"\x1a")
        _, status = os.waitpid(program.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert is_sane(program)
        program.drain(0.1)
        program.terminal.feed("\x1b[2J\x1b[Hsomething of the shell")

        os.kill(program.pid, signal.SIGCONT)
        program.wait_until(lambda rows: rows == before, "the screen from before")

        program.press_until("2]", "#40")


def test_leaving_does_not_wait_for_what_is_computed(tmp_path: Path) -> None:
    code = """
import os, sys, time
os.chdir({folder!r})
sys.argv = ["ccltui", "run"]
from ccltui import __main__
from ccltui.tui import start
def endless(*_, **__):
    time.sleep(300)
start.EarlyProcesses.load = endless
sys.exit(__main__.main())
"""
    (tmp_path / "run").mkdir()
    with running(["-c", code.format(folder=str(tmp_path))], 80, 24) as program:
        program.wait_for("looking for traces")
        os.write(program.descriptor, b"q")
        after = end_of(program)
        begun = time.monotonic()

        assert program.exit_code() == 0
    assert time.monotonic() - begun < 60
    assert after.strip() == ""


@pytest.mark.parametrize("of_the_session", [True, False], ids=["signalled", "not signalled"])
def test_it_ends_with_its_terminal_although_errors_go_to_a_file(
    tmp_path: Path, of_the_session: bool
) -> None:
    """The signal of a closed terminal reaches its session only; reading it gives nothing."""
    (tmp_path / "run").mkdir()
    errors = tmp_path / "errors"
    code = f"""
import os, sys
os.dup2(os.open({str(errors)!r}, os.O_WRONLY | os.O_CREAT), 2)
os.chdir({str(tmp_path)!r})
sys.argv = ["ccltui", "run"]
from ccltui import __main__
sys.exit(__main__.main())
"""
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    take = f"import fcntl; fcntl.ioctl(0, {termios.TIOCSCTTY}, 0)" if of_the_session else ""
    with subprocess.Popen(
        [sys.executable, "-c", take + code],
        stdin=slave,
        stdout=slave,
        start_new_session=True,
        env=os.environ | {"TERM": "xterm-256color"},
    ) as program:
        os.close(slave)
        try:
            shown = b""
            while b"No trace" not in shown:
                assert select.select([master], [], [], 20)[0], shown
                shown += os.read(master, 1 << 20)
            os.close(master)

            assert program.wait(20) == 128 + signal.SIGHUP
        finally:
            program.kill()
    assert errors.read_text() == ""
