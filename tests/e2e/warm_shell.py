"""Run the commands in copies of one process that has imported them already.

Starting Python and importing numpy and the commands is two thirds of the CPU time of most commands
on a small job (0.25 of 0.35 CPU-s). Tests of what a command prints use ``run`` of this module;
tests of how it starts, of signals, and of modules on its path use ``run`` of ``shell``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import shell

SERVER: Final = Path(__file__).with_name("warm_server.py")
# Python reads these when it starts, and compiled modules when they are imported.
READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "CCLTUI_ACCEL")


class _Server:
    """A process with the commands imported, which runs each request in a fork of itself."""

    def __init__(self) -> None:
        self._environment = _start_settings(dict(os.environ))
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=shell.environment({}),
                stdin=subprocess.DEVNULL,
            )
        self._socket = ours
        self._answers = ours.makefile("r", encoding="utf-8")
        atexit.register(self.close)

    def close(self) -> None:
        """End the process: it leaves when its socket is closed."""
        self._answers.close()
        self._socket.close()
        self._process.wait()

    def can_run(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether a fork behaves as a new process would with this command and environment."""
        known = tuple(command[:1]) in (shell.CCLTUI, shell.CCL_METRICS)
        return known and _start_settings(environment) == self._environment

    def run(
        self, command: list[str], cwd: Path | None, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` in a fork; standard input is empty, both outputs are pipes."""
        request = {"argv": command, "cwd": str(cwd or Path.cwd()), "env": dict(environment)}
        readers, writers = zip(os.pipe(), os.pipe(), strict=True)
        outputs = [_Reader(descriptor) for descriptor in readers]
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode() + b"\n"], writers)
        finally:
            for descriptor in writers:
                os.close(descriptor)
        pid = int(self._answers.readline())
        for output in outputs:
            output.join(shell.TIMEOUT_S)
        if any(output.is_alive() for output in outputs):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, shell.TIMEOUT_S)
        status = int(self._answers.readline())
        return subprocess.CompletedProcess(command, status, outputs[0].text(), outputs[1].text())


class _Reader(threading.Thread):
    """Read a pipe to its end."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._file = open(descriptor, "rb")  # noqa: SIM115  (closed by the thread)
        self._data = b""
        self.start()

    def run(self) -> None:
        with self._file:
            self._data = self._file.read()

    def text(self) -> str:
        """What was read, with line ends as ``subprocess.run`` gives them."""
        return self._data.decode().replace("\r\n", "\n").replace("\r", "\n")


_SERVERS: list[_Server] = []


def run(
    command: Sequence[str],
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Return output and exit status of a command, as ``shell.run`` does, in less time."""
    if not _SERVERS:
        _SERVERS.append(_Server())
    environment = shell.environment(env or {})
    if not _SERVERS[0].can_run(command, environment):
        return shell.run(command, *arguments, cwd=cwd, env=env)
    return _SERVERS[0].run([*command, *map(str, arguments)], cwd, environment)


def _start_settings(environment: Mapping[str, str]) -> dict[str, str]:
    safe = "PYTHONSAFEPATH"  # importing a command sets it, and each run has it removed
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_AT_START) and name != safe
    }
