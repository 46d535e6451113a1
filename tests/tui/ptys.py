"""Programs in a pseudo terminal: keys in, bytes out."""

from __future__ import annotations

import codecs
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
from collections.abc import Callable, Iterator
from pathlib import Path

from screens import Terminal

HERE = Path(__file__).parent
# The unambiguous form of the kitty protocol: a bare escape that a busy program reads together with
# the next key is alt and that key.
ESCAPE = "\x1b[27u"
_QUIET_S = 0.35
_LONGEST_S = 60.0


class Program:
    """A child in a terminal of its own, with an emulator that shows what it wrote."""

    def __init__(self, pid: int, descriptor: int, width: int, height: int) -> None:
        self.pid = pid
        self.descriptor = descriptor
        self.ended = False
        self.received = 0  # bytes that were drained
        self._text = Understood()
        self.terminal = Terminal(width, height)

    def press(self, keys: str, quiet_s: float = _QUIET_S) -> int:
        """Type, wait until the program is silent; returns the bytes it wrote."""
        os.write(self.descriptor, keys.encode())
        return self.drain(quiet_s)

    def drain(self, quiet_s: float = _QUIET_S) -> int:
        """Show what comes until nothing has come for a while; returns how many bytes."""
        parts = []
        while select.select([self.descriptor], [], [], quiet_s)[0]:
            try:
                parts.append(os.read(self.descriptor, 1 << 20))
            except OSError:
                break
        data = b"".join(parts)
        self.received += len(data)
        self.terminal.feed(self._text(data))
        return len(data)

    def press_until(self, keys: str, text: str) -> int:
        """Type, wait for a text and for silence; returns the bytes of the key and its answers."""
        before = self.received
        os.write(self.descriptor, keys.encode())
        self.wait_for(text)
        return self.received - before

    def wait_for(self, text: str) -> None:
        """Wait until a text stands on the screen."""
        self.wait_until(lambda rows: any(text in row for row in rows), repr(text))

    def wait_until(self, holds: Callable[[list[str]], bool], what: str) -> None:
        """Wait until a condition on the rows of the screen is true, and for silence."""
        deadline = time.monotonic() + _LONGEST_S
        while time.monotonic() < deadline:
            self.drain(0.1)
            if holds(self.terminal.text()):
                self.drain()
                return
        raise AssertionError(f"{what} never came:\n" + "\n".join(self.terminal.text()))

    def read_to_end(self) -> str:
        """Everything that comes until the program closes its terminal."""
        parts = []
        while select.select([self.descriptor], [], [], _LONGEST_S)[0]:
            try:
                data = os.read(self.descriptor, 1 << 20)
            except OSError:  # how Linux tells that the other end is closed
                break
            if not data:
                break
            parts.append(data)
        return b"".join(parts).decode("utf-8", "replace")

    def has_ended(self) -> bool:
        """Whether the program has ended by itself."""
        pid, _ = os.waitpid(self.pid, os.WNOHANG)
        self.ended = self.ended or pid != 0
        return self.ended

    def exit_code(self) -> int:
        """Code of a program that has ended, or does so soon."""
        deadline = time.monotonic() + _LONGEST_S
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        while not ended:
            assert time.monotonic() < deadline, "it has not ended"
            time.sleep(0.01)
            ended, status = os.waitpid(self.pid, os.WNOHANG)
        self.ended = True
        return os.waitstatus_to_exitcode(status)

    def resize(self, width: int, height: int) -> None:
        """Change the size of the terminal, as a window manager would."""
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)
        os.kill(self.pid, signal.SIGWINCH)
        self.terminal.screen.resize(height, width)


class Understood:
    """Bytes as they come to text an emulator understands, never cut inside a sequence.

    pyte takes private modes like those of the kitty keyboard for text.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def __call__(self, data: bytes) -> str:
        text = self._rest + self._decode(data)
        cut = re.search(r"\x1b(?:\[[\d;<>=?$]*|\][^\x07\x1b]*)?$", text)
        end = len(text) if cut is None else cut.start()
        text, self._rest = text[:end], text[end:]
        return re.sub(r"\x1b\[[<>=][\d;]*[a-zA-Z]|\x1b\[\?[\d;]*\$p", "", text)


@contextlib.contextmanager
def running(arguments: list[str], width: int, height: int) -> Iterator[Program]:
    """A Python program in a terminal; it is ended with the block."""
    pid, descriptor = pty.fork()
    if pid == 0:
        unset = ("NO_COLOR", "COLUMNS", "LINES", "TMUX", "COLORTERM")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        environment["TERM"] = "xterm-256color"
        # Not execv: readline puts LINES and COLUMNS where only C sees them.
        os.execve(sys.executable, [sys.executable, *arguments], environment)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    program = Program(pid, descriptor, width, height)
    try:
        yield program
    finally:
        if not program.ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(descriptor)
