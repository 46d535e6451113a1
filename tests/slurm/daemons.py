"""Processes of a private cluster: started, awaited, and ended for sure."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct


class ClusterError(RuntimeError):
    """The cluster did not come up; the message holds the end of the logs."""


def reserve_ports(count: int) -> list[socket.socket]:
    """Sockets of TCP ports that nobody else gets while they are open.

    A daemon can listen on such a port: it asks for an address in use, as these sockets do, and
    none of them listens. No client gets it as the port of its own end of a connection.
    """
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
    return sockets


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def await_true(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Ask ten times a second. Raises ClusterError when it stays false."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)


class _Daemon(Struct, frozen=True):
    name: str
    process: subprocess.Popen[bytes]
    polite: bool


class Daemons:
    """The daemons of one cluster, each with a log of what it prints.

    They die with this process, even where it is killed: each asks the kernel for a signal at
    the death of its parent.
    """

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = dict(environment)
        self._running: list[_Daemon] = []

    def start(self, name: str, command: Sequence[str | Path], *, polite: bool = True) -> None:
        """Start ``command`` in the background; what is not polite is killed at the end."""
        with (self._logs / f"{name}.out").open("wb") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        self._running.append(_Daemon(name, process, polite))

    def check_alive(self) -> None:
        """Raise ClusterError with the log of the first daemon that has left."""
        for daemon in self._running:
            status = daemon.process.poll()
            if status is not None:
                text = (self._logs / f"{daemon.name}.out").read_text(errors="replace")
                raise ClusterError(f"{daemon.name} ended with {status}: {text[-2000:]}")

    def stop(self, *, grace_s: float = 5) -> None:
        """End all, the last started first, and what they started; some need to be killed.

        Nothing else is ended: a client of the cluster in a shell of the user's is not ours.
        """
        started = family(daemon.process.pid for daemon in self._running)
        for daemon in reversed(self._running):
            process = daemon.process
            process.send_signal(signal.SIGTERM if daemon.polite else signal.SIGKILL)
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        kill_all([pid for pid, since in started.items() if _start_and_parent(pid)[0] == since])


def processes_with(*variables: str) -> list[int]:
    """Processes in whose environment each of ``NAME=VALUE`` stands, this one excepted."""
    marks = {variable.encode() for variable in variables}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:  # it has just ended
            continue
        if marks <= set(environment.split(b"\0")) and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def family(roots: Iterable[int]) -> dict[int, int]:
    """Processes ``roots`` and all below them, with the time at which each began.

    A number alone would name another process once this one has ended.
    """
    told = {int(one.name): _start_and_parent(int(one.name)) for one in Path("/proc").glob("[0-9]*")}
    children: dict[int, list[int]] = {}
    for pid, (_, parent) in told.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    left = list(roots)
    while left:
        pid = left.pop()
        if pid in told and pid not in found:
            found[pid] = told[pid][0]
            left += children.get(pid, [])
    return found


def _start_and_parent(pid: int) -> tuple[int, int]:
    """When a process began, in ticks since the machine did, and its parent; -1 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return -1, -1
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return int(fields[19]), int(fields[1])


def kill_all(pids: Sequence[int]) -> None:
    """Kill these processes; one that is gone already is no error."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def missing_programs(names: Sequence[str]) -> list[str]:
    """Those of ``names`` that are not on PATH (or where Debian keeps daemons)."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return [name for name in names if shutil.which(name, path=path) is None]
