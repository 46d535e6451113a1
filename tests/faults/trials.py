"""One trial: start a command, send a signal at some moment, and judge all that is left of it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

CCLTUI = (sys.executable, "-P", "-m", "ccltui")
NUMBERS = ("--metric", "straggler_lag", "--metric", "iter_time", "--format", "json")
MARK = "CCLTUI_TRIAL"
"""Variable by which the processes of a trial are found, whoever their parent is."""
PATIENCE_S = 90.0
_MESSAGE = re.compile(r"(?:ccltui|ccl-metrics): ")


class Plan(Struct, frozen=True):
    """What is done in a trial.

    Attributes:
        kind: ``metrics`` or ``explorer``.
        cached: Whether the columns are in the cache before.
        number: The signal.
        to_child: Whether a process that the command has started gets the signal, not the command.
        after_s: Seconds from the start to the signal.
    """

    kind: str
    cached: bool
    number: signal.Signals
    to_child: bool
    after_s: float


class Outcome(Struct):
    """What was left of a trial; ``problems`` is empty where all was well."""

    plan: Plan
    status: int = 0
    sent: bool = False
    victim: str = ""
    problems: list[str] = field(default_factory=list)
    output: str = ""
    errors: str = ""


def environment(folder: Path, mark: str) -> dict[str, str]:
    """Return the environment of a trial: its own cache, temporary folder and mark."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "LINES", "NO_COLOR", "PYTHONSAFEPATH")
    }
    return kept | {
        "CCLTUI_CACHE_DIR": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        "TERM": "xterm-256color",
        MARK: mark,
    }


def processes(mark: str) -> dict[int, str]:
    """Return the command lines of the processes of a trial, by process id; no zombies."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(entry.name)] = line
    return found


def run_trial(
    plan: Plan, job: Path, folder: Path, expected: str, command: Sequence[str] = CCLTUI
) -> Outcome:
    """Carry out a trial.

    Args:
        plan: What is done.
        job: The traces.
        folder: Has a folder ``tmp``; the cache is made beside it.
        expected: The output of the command when nothing happens to it.
        command: The program, before its arguments. It may send the signal to itself.
    """
    mark = uuid.uuid4().hex
    outcome = Outcome(plan)
    if plan.kind == "explorer":
        _explore(outcome, command, job, environment(folder, mark), mark)
    else:
        _print(outcome, job, environment(folder, mark), mark)
        _judge_output(outcome, expected)
    _judge_status(outcome)
    _judge_rest(outcome, folder, mark)
    return outcome


def _send(outcome: Outcome, pid: int, mark: str) -> None:
    plan, target = outcome.plan, pid
    if plan.to_child:
        children = [one for one in processes(mark) if one != pid]
        if not children:
            return
        target = children[int(plan.after_s * 1e6) % len(children)]
        outcome.victim = processes(mark).get(target, "")
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, plan.number)
        outcome.sent = True


def _print(outcome: Outcome, job: Path, env: Mapping[str, str], mark: str) -> None:
    process = subprocess.Popen(
        [*CCLTUI, str(job), *NUMBERS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        text=True,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(outcome.plan.after_s)
    if process.poll() is None:
        _send(outcome, process.pid, mark)
    try:
        outcome.output, outcome.errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        outcome.problems.append(f"still running {PATIENCE_S:.0f} s after the signal")
        _kill(mark)
        outcome.output, outcome.errors = process.communicate()
    outcome.status = process.returncode


def _explore(
    outcome: Outcome, command: Sequence[str], job: Path, env: Mapping[str, str], mark: str
) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        [*command, str(job)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=dict(env),
        start_new_session=True,
    )
    written = bytearray()
    _read_until(master, written, time.monotonic() + outcome.plan.after_s, process)
    if process.poll() is None:
        _send(outcome, process.pid, mark)
    if outcome.plan.to_child:  # the explorer goes on, and is left by its key
        _read_until(master, written, time.monotonic() + 3.0, process)
        os.write(master, b"q")
    end = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < end:
        _read_until(master, written, time.monotonic() + 1.0, process)
        if outcome.plan.to_child and process.poll() is None:
            os.write(master, b"q")  # keys typed before the explorer reads them are dropped
    if process.poll() is None:
        outcome.problems.append(f"still running {PATIENCE_S:.0f} s after the signal")
        _kill(mark)
    outcome.status = process.wait()
    _read_until(master, written, time.monotonic() + 0.2, process)
    if outcome.status != -signal.SIGKILL:
        _judge_terminal(outcome, before, termios.tcgetattr(slave), bytes(written))
    os.close(slave)
    os.close(master)


def _read_until(
    master: int, written: bytearray, end: float, process: subprocess.Popen[bytes]
) -> None:
    while (left := end - time.monotonic()) > 0:
        if select.select([master], [], [], min(left, 0.1))[0]:
            written += os.read(master, 1 << 16)
        elif process.poll() is not None:
            return


def _judge_terminal(
    outcome: Outcome, before: list[object], after: list[object], written: bytes
) -> None:
    if before != after:
        outcome.problems.append("the modes of the terminal are not restored")
    for name, on, off in (
        ("the other screen", b"\x1b[?1049h", b"\x1b[?1049l"),
        ("the mouse", b"\x1b[?1000h", b"\x1b[?1000l"),
    ):
        if written.rfind(on) > written.rfind(off):
            outcome.problems.append(f"{name} stays on")
    if b"Traceback" in written and not _is_tracker(outcome):
        outcome.problems.append("a traceback on the screen")
        outcome.errors = written[written.find(b"Traceback") :].decode("utf-8", "replace")[:2000]


def _judge_output(outcome: Outcome, expected: str) -> None:
    if outcome.output and outcome.status in (0, 3) and outcome.output != expected:
        outcome.problems.append("another answer with a status of success")
    if outcome.output:
        try:
            json.loads(outcome.output)
        except ValueError:
            outcome.problems.append("the output is cut")
    elif outcome.status == 0:
        outcome.problems.append("status 0 without an answer")
    lines = outcome.errors.splitlines()
    if not _began(outcome):
        return
    if any(not _MESSAGE.match(line) for line in lines) and not _is_tracker(outcome):
        outcome.problems.append("more than lines of the program on standard error")


def _is_tracker(outcome: Outcome) -> bool:
    """Whether the victim was Python's own tracker of semaphores, which Python reports itself."""
    return "resource_tracker" in outcome.victim


def _began(outcome: Outcome) -> bool:
    """Whether the first line of the program ran: before that the interpreter answers signals."""
    lines = outcome.errors.splitlines()
    frames = [line for line in lines if line.lstrip().startswith("File ")]
    of_python = [line for line in frames if "/ccltui/" not in line]
    by_python = lines[:1] and lines[0].startswith(("Traceback", "Fatal Python error: init_"))
    return not frames or len(of_python) < len(frames) or not by_python


def _judge_status(outcome: Outcome) -> None:
    plan, status = outcome.plan, outcome.status
    if status == 128 + plan.number and not plan.to_child:
        return  # by the signal, also where the command sent it to itself
    if plan.to_child or not outcome.sent:
        right = {0, 1}  # 1: a worker that reads was killed, its rank is missing
    elif plan.number == signal.SIGKILL:
        right = {0, -9}
    else:
        # 0: it had ended but for its exit. By the signal: before Python could ask for signals.
        right = {0, 128 + plan.number, -plan.number}
        if plan.number == signal.SIGINT and not _began(outcome):
            right.add(1)
    if status not in right:
        outcome.problems.append(f"status {status}, not one of {sorted(right)}")


def _judge_rest(outcome: Outcome, folder: Path, mark: str) -> None:
    end = time.monotonic() + 20.0
    while (left := processes(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    if left:
        outcome.problems.append(f"{len(left)} processes are left: {sorted(left.values())}")
        _kill(mark)
    if outcome.plan.number == signal.SIGKILL:
        return  # what it leaves, the next command removes: `swept` looks
    files = [str(path.relative_to(folder)) for path in leftovers(folder)]
    if files:
        outcome.problems.append(f"files are left: {files[:4]}")


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files and the unfinished entries of the cache."""
    cache = folder / "cache"
    return [*(folder / "tmp").iterdir(), *cache.glob(".writing-*"), *cache.glob("crash-*")]


def _kill(mark: str) -> None:
    for pid in processes(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def answer(job: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the trials with nothing happening to it."""
    return subprocess.run(
        [*CCLTUI, str(job), *NUMBERS, *more],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(folder, "none"),
        text=True,
        check=False,
    )


def shown(outcomes: Sequence[Outcome]) -> str:
    """Return the problems of trials as text."""
    return "\n".join(
        f"{one.plan}: {'; '.join(one.problems)}\n{one.victim}\n{one.errors[:600]}"
        for one in outcomes
        if one.problems
    )
