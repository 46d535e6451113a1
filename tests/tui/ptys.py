"""Programs in a pseudo terminal: keys in, bytes out."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from screens import Terminal

HERE = Path(__file__).parent
_QUIET_S = 0.35
_LONGEST_S = 20.0


class Program:
    """A child in a terminal of its own, with an emulator that shows what it wrote."""

    def __init__(self, pid: int, descriptor: int, width: int, height: int) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self.terminal = Terminal(width, height)

    def press(self, keys: str, quiet_s: float = _QUIET_S) -> int:
        """Type, wait until the program is silent; returns the bytes it wrote."""
        os.write(self._descriptor, keys.encode())
        return self.drain(quiet_s)

    def drain(self, quiet_s: float = _QUIET_S) -> int:
        """Show what comes until nothing has come for a while; returns how many bytes."""
        parts = []
        while select.select([self._descriptor], [], [], quiet_s)[0]:
            try:
                parts.append(os.read(self._descriptor, 1 << 20))
            except OSError:
                break
        data = b"".join(parts)
        self.terminal.feed(_shown(data))
        return len(data)

    def wait_for(self, text: str) -> None:
        """Wait until a text stands on the screen."""
        deadline = time.monotonic() + _LONGEST_S
        while time.monotonic() < deadline:
            self.drain(0.1)
            if any(text in row for row in self.terminal.text()):
                self.drain()
                return
        raise AssertionError(f"{text!r} never came:\n" + "\n".join(self.terminal.text()))

    def resize(self, width: int, height: int) -> None:
        """Change the size of the terminal, as a window manager would."""
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, size)
        os.kill(self.pid, signal.SIGWINCH)
        self.terminal.screen.resize(height, width)


def _shown(data: bytes) -> str:
    """What an emulator understands: pyte takes private modes like the kitty keyboard as text."""
    text = data.decode("utf-8", "replace")
    return re.sub(r"\x1b\[[<>=][\d;]*[a-zA-Z]|\x1b\[\?[\d;]*\$p", "", text)


@contextlib.contextmanager
def running(arguments: list[str], width: int, height: int) -> Iterator[Program]:
    """A Python program in a terminal; it is ended with the block."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="", CCLTUI_TEST="1")
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, *arguments])
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    try:
        yield Program(pid, descriptor, width, height)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(descriptor)
