"""Run a command on a terminal: send keys, and read the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyte
from shell import TIMEOUT_S, environment

ROWS, COLUMNS = 24, 80


class Session:
    """A command on a terminal of 80 by 24, and the screen as a person sees it."""

    def __init__(
        self, command: Sequence[str], cwd: Path | None, env: Mapping[str, str | None]
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment({"TERM": "xterm-256color", "COLORTERM": None, **env}),
            start_new_session=True,
        )
        os.close(slave)
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while text not in self.text:
            assert time.monotonic() < end, self.text
            assert self._feed(), self.text

    def finish(self) -> int:
        end = time.monotonic() + TIMEOUT_S
        while self._feed():
            assert time.monotonic() < end, self.text
        return self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def _feed(self) -> bool:
        """Take in what was written within a second; False when the command is gone."""
        if not select.select([self._master], [], [], 1)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self._stream.feed(data)
        return bool(data)


@contextmanager
def session(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str | None] | None = None
) -> Iterator[Session]:
    """Start a command, and end it with the block."""
    opened = Session([str(part) for part in command], cwd, env or {})
    try:
        yield opened
    finally:
        opened.close()
