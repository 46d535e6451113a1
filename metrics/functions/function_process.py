"""Run a function ``metric_cal`` in a process of its own that can be cancelled at any time.

A file of the user may hang, print, change global state or crash the interpreter. Its process
imports nothing from the working directory, receives and returns JSON (nothing is unpickled), and is
killed with all of its children after the time-out, on ctrl+c, and when the caller is interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Any, Final

from msgspec import Struct

from ccltui.metrics.functions.function_source import FunctionSource

_MOST_BYTES: Final = 16 << 20
"""Most bytes of JSON that are read from a function."""
_CHUNK: Final = 1 << 16
_EXIT_POLLS: Final = 100
_EXIT_POLL_S: Final = 0.01
_BOOTSTRAP: Final = (
    "import json, sys; request = json.loads(sys.stdin.buffer.readline()); "
    "sys.path[:] = request['path']; "
    "from ccltui.metrics.functions.function_worker import work; work(request)"
)


class FunctionLimits(Struct, frozen=True):
    """How functions are run.

    Attributes:
        timeout_s: Seconds after which a function is stopped.
        debug: Print tracebacks on standard error.
        for_screen: Discard what functions print, and run each once for a directory: the explorer
            computes its metrics again whenever a rank is loaded or the view changes.
    """

    timeout_s: float = 300.0
    debug: bool = False
    for_screen: bool = False


class FunctionFailedError(Exception):
    """A function has returned nothing that can be used; the message is the reason."""


class Returned(Struct, frozen=True):
    """What a function returned.

    Attributes:
        value: A number, a dictionary or whatever else JSON can state.
        not_finite: Places whose numbers were not finite, and are None in the value.
        takes_mode: Whether the function took the profile mode.
    """

    value: Any
    not_finite: tuple[str, ...] = ()
    takes_mode: bool = True


_ended: Final[dict[tuple[FunctionSource, str, str], Returned | FunctionFailedError]] = {}


def call(
    source: FunctionSource, directory: str, profile_mode: str, limits: FunctionLimits
) -> Returned:
    """Run a function, or return how it ended before where the limits are those of a screen.

    See `run_function` for arguments and errors.
    """
    if not limits.for_screen:
        return run_function(source, directory, profile_mode, limits)
    key = (source, directory, profile_mode)
    if key not in _ended:
        try:
            _ended[key] = run_function(source, directory, profile_mode, limits)
        except FunctionFailedError as error:
            _ended[key] = error
    ended = _ended[key]
    if isinstance(ended, FunctionFailedError):
        raise FunctionFailedError(str(ended))
    return ended


def run_function(
    source: FunctionSource, directory: str, profile_mode: str, limits: FunctionLimits
) -> Returned:
    """Run a function.

    Args:
        source: The function.
        directory: Trace directory, passed to the function as an absolute path.
        profile_mode: ``auto``, ``torch`` or ``nsys``, passed on.
        limits: Time-out and output.

    Raises:
        FunctionFailedError: It raised, ran too long, ended without a result, or returned what has
            no form in JSON.
    """
    read_end, write_end = os.pipe()
    request = {
        "path": [entry for entry in sys.path if entry],
        "search": list(source.search),
        "kind": source.kind,
        "target": source.target,
        "directory": os.path.abspath(directory),  # noqa: PTH100  (links stay as they are)
        "profile_mode": profile_mode,
        "output": write_end,
        "debug": limits.debug,
    }
    with open(read_end, "rb", buffering=0) as results:  # noqa: PTH123  (a descriptor)
        try:
            process = _started(write_end, quiet=limits.for_screen)
        finally:
            os.close(write_end)
        try:
            _send(process, request)
            data = _received(results, process.pid, limits.timeout_s)
        finally:
            _end(process)
    return _returned(data, process.returncode)


def _started(write_end: int, *, quiet: bool) -> subprocess.Popen[bytes]:
    output = subprocess.DEVNULL if quiet or not _is_open(2) else 2
    # What this process ignores, the function's process ignores too.
    ignored = ["-E"] * sys.flags.ignore_environment + ["-s"] * sys.flags.no_user_site
    return subprocess.Popen(
        [sys.executable, "-P", "-B", *ignored, "-c", _BOOTSTRAP],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=(write_end,),
        start_new_session=True,  # a group of its own: ended with all that it starts
    )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _send(process: subprocess.Popen[bytes], request: Mapping[str, Any]) -> None:
    """Write the request; standard input stays open, because its end is the end of the process."""
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError):  # it has died: its exit status is reported
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()


def _received(results: IO[bytes], pid: int, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    parts: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(results, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise FunctionFailedError(f"ran longer than {timeout_s:g} s and was stopped")
            part = os.read(results.fileno(), _CHUNK)
            if not part:
                _await_exit(pid)
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > _MOST_BYTES:
                raise FunctionFailedError(f"returned more than {_MOST_BYTES >> 20} MiB")


def _await_exit(pid: int) -> None:
    """Give a process that has closed its output the time to end by itself, so that it has a status.

    It is not waited for in the sense of the system: its id stays that of its group.
    """
    for _ in range(_EXIT_POLLS):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(_EXIT_POLL_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    # The group is killed before its leader is reaped: until then no other process has its id.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _returned(data: bytes, status: int) -> Returned:
    if not data:
        raise FunctionFailedError(f"ended without a result ({_ending(status)})")
    try:
        outcome = json.loads(data)
    except ValueError:
        raise FunctionFailedError(f"its result is cut off ({_ending(status)})") from None
    if "error" in outcome:
        raise FunctionFailedError(outcome["error"])
    return Returned(outcome["returned"], tuple(outcome["not_finite"]), outcome["takes_mode"])


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
