"""Press random keys in the explorer for hours; print memory, handles and processes at intervals.

    python -m bench.soak [--keys N] [--every N] [--seed N] [DIR]

The explorer runs in a pseudo-terminal on a directory of several captures: by default four small
jobs that are written for it. Between the keys windows change their size, prompts are filled in,
and captures are opened, of which every second load is cancelled. At the end the explorer is quit.

The exit code is 1 where it ended by itself, where the memory in the last third is more than 5 %
above that of the third before, where threads, processes or open files grew, or where a process, a
temporary file or a file in the working directory is left. Keys that write files, suspend or quit
are not pressed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.demo import DEMO, write_job

_MARK = "CCLTUI_SOAK"
"""Variable in the environment of the explorer, by which processes that it leaves are found."""
_KEYS = (
    *"123456789%&0hjklHJKLGgadwsADf+-=][}{<>.,iIbopOzvT|xnN#/trcCFmu'UVRZ!EyYM^$",
    *("\t", "\x1b", "\r", "\x7f", "\x14", "\x12", "\x17", "\x13", "\x0c", " ", "?"),
    *("\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[Z", "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F"),
)
_PROMPTS = (
    *(
        "/nccl\r",
        "gk 12\r",
        "gr1\r",
        "git 2\r",
        "r0-2\r",
        "r0-99\r",
        "t0ms..20ms\r",
        "titeration 1\r",
    ),
    *("\x14", "cx\x1b", "Fgemm\r", "F\x7f\r", "ma", "'a", "V1\r", "/" + "z" * 60 + "\r", "C\r"),
)
_SIZES = ((80, 24), (120, 40), (165, 45), (60, 15), (20, 5), (250, 70), (100, 30))
_FILES_KEY = "5"
_BURST = 30
_TAIL_BYTES = 20_000
_ESCAPES = re.compile(r"\x1b\[[\d;<>=?]*[a-zA-Z]|\x1b\][^\x07\x1b]*")
_LARGEST_GROWTH = 1.05
_QUIET_S = 0.05
_SETTLE_S = 1.5
_END_S = 30.0


class Sample(Struct, frozen=True):
    """Figures of all processes of the explorer, when nothing is loading."""

    keys: int
    memory_kib: int
    processes: int
    threads: int
    handles: int
    temporary: int


class Counts(Struct):
    """Numbers of events other than key presses."""

    resizes: int = 0
    loads: int = 0
    cancels: int = 0
    prompts: int = 0
    samples: list[Sample] = field(default_factory=list)


class Session:
    """An explorer in a pseudo-terminal, whose output is read and dropped."""

    def __init__(self, directory: Path, work: Path) -> None:
        self.token = uuid.uuid4().hex
        self.work = work
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            self._start(directory)
        self.resize(120, 40)
        self.tail = b""

    def _start(self, directory: Path) -> None:
        """Replace this process by the explorer, with folders of its own for all that it writes."""
        environment = dict(os.environ, TERM="xterm-256color", **{_MARK: self.token})
        for name in ("TMPDIR", "XDG_CACHE_HOME", "HOME", "XDG_CONFIG_HOME"):
            environment[name] = str(self.work / name)
        for name in ("NO_COLOR", "COLUMNS", "LINES", "TMUX"):
            environment.pop(name, None)
        os.chdir(self.work / "cwd")
        command = [sys.executable, "-m", "ccltui", str(directory), "--debug"]
        os.execve(sys.executable, command, environment)

    def resize(self, width: int, height: int) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: str, quiet_s: float = _QUIET_S) -> None:
        """Type, and read until nothing has come for a while."""
        os.write(self.descriptor, keys.encode())
        self.drain(quiet_s)

    def drain(self, quiet_s: float) -> None:
        """Read until nothing has come for ``quiet_s``."""
        while select.select([self.descriptor], [], [], quiet_s)[0]:
            data = os.read(self.descriptor, 1 << 18)
            if not data:
                raise EOFError
            self.tail = (self.tail + data)[-_TAIL_BYTES:]

    def processes(self) -> list[int]:
        """Return every process that was started with the mark of this session."""
        mark = f"{_MARK}={self.token}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def temporary(self) -> list[Path]:
        """Return what lies in the temporary and the working directory."""
        folders = (self.work / "TMPDIR", self.work / "cwd")
        return sorted(path for folder in folders for path in folder.rglob("*"))

    def sample(self, keys: int) -> Sample:
        """Measure all processes; pages of files, which the system may drop, do not count."""
        memory = threads = handles = alive = 0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
                fields = dict(line.split(":", 1) for line in status if ":" in line)
                memory += int(fields["RssAnon"].split()[0])
                threads += int(fields["Threads"])
                handles += len(list(Path(f"/proc/{pid}/fd").iterdir()))
                alive += 1
        return Sample(keys, memory, alive, threads, handles, len(self.temporary()))

    def quit(self) -> str:
        """Quit; return what is wrong with the end, "" where nothing is."""
        end = time.monotonic() + _END_S
        with contextlib.suppress(OSError, EOFError):  # its terminal is closed before it ends
            self.press("\x1b\x1b\x1b\x1b", 0.5)
            while time.monotonic() < end:
                self.press("q", 0.5)
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while not pid and time.monotonic() < end:
            time.sleep(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return "it did not end"
        code = os.waitstatus_to_exitcode(status)
        time.sleep(1.0)
        left = self.processes()
        problems = [f"exit code {code}"] if code else []
        problems += [f"processes left: {left}"] if left else []
        problems += [f"files left: {[str(one) for one in self.temporary()]}"] * bool(
            self.temporary()
        )
        return "; ".join(problems)

    def close(self) -> None:
        """End what is left."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)


@contextlib.contextmanager
def session(directory: Path) -> Iterator[Session]:
    """Run an explorer on a directory; it is ended with the block."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        work = Path(folder)
        for name in ("TMPDIR", "XDG_CACHE_HOME", "HOME", "XDG_CONFIG_HOME", "cwd"):
            (work / name).mkdir()
        one = Session(directory, work)
        try:
            yield one
        finally:
            one.close()


def press_keys(one: Session, keys: int, every: int, dice: random.Random) -> Counts:
    """Press so many keys, and measure at intervals."""
    counts = Counts()
    pressed, sampled = 0, 0
    while pressed < keys:
        kind = dice.random()
        if kind < 0.08:
            one.resize(*dice.choice(_SIZES))
            counts.resizes += 1
            text, length = dice.choice(_KEYS), 1
        elif kind < 0.16:
            text = dice.choice(_PROMPTS)
            length = len(text)
            counts.prompts += 1
        elif kind < 0.26:
            text = "\x1b" + _FILES_KEY + "j" * dice.randrange(12) + "\r"
            length = len(text)
            counts.loads += 1
            if dice.random() < 0.5:
                one.press(text, dice.choice((0.0, 0.02, 0.1)))
                text, length = "\x1b", length + 1
                counts.cancels += 1
        else:
            text, length = "".join(dice.choice(_KEYS) for _ in range(_BURST)), _BURST
        one.press(text)
        pressed += length
        if pressed - sampled >= every:
            sampled = pressed
            one.press("\x1b\x1b\x1b", _SETTLE_S)
            counts.samples.append(one.sample(pressed))
            print(_row(counts.samples[-1]), flush=True)
    return counts


def _row(one: Sample) -> str:
    return (
        f"{one.keys:>9,} {one.memory_kib / 1024:>11.1f} {one.processes:>10} {one.threads:>8} "
        f"{one.handles:>8} {one.temporary:>16}"
    )


def verdict(samples: list[Sample]) -> list[str]:
    """Return what grew from the second third of the samples to the last."""
    if len(samples) < 6:
        return ["too few keys to judge: fewer than six samples"]
    third = len(samples) // 3
    middle, last = samples[third:-third], samples[-third:]
    problems = []
    before, after = (statistics.median(one.memory_kib for one in part) for part in (middle, last))
    print(f"memory: median {before / 1024:.1f} MiB, then {after / 1024:.1f} MiB")
    if after > before * _LARGEST_GROWTH:
        problems.append(f"memory grew by {after / before - 1:.1%}")
    for name in ("processes", "threads", "handles", "temporary"):
        most, least = (max(getattr(one, name) for one in middle),
                       min(getattr(one, name) for one in last))  # fmt: skip
        if least > most:
            problems.append(f"{name} grew from {most} to {least}")
    return problems


def write_captures(root: Path) -> Path:
    """Write four small jobs below ``root``."""
    for number in range(4):
        write_job(root / f"iteration_{number}", replace(DEMO, seed=number))
    return root


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=2_000, help="keys between two samples")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-captures-") as folder:
        directory = options.directory or write_captures(Path(folder))
        begun = time.monotonic()
        with session(directory.resolve()) as one:
            one.drain(3.0)
            print("     keys  memory MiB  processes  threads  handles  temporary files", flush=True)
            try:
                counts = press_keys(one, options.keys, options.every, random.Random(options.seed))
            except (OSError, EOFError):
                text = _ESCAPES.sub("", one.tail.decode("utf-8", "replace"))
                print(f"the explorer ended by itself; its last output:\n{text}")
                return 1
            problems = verdict(counts.samples)
            end = one.quit()
        problems += [end] if end else []
        hours = (time.monotonic() - begun) / 3600
        keys = counts.samples[-1].keys if counts.samples else 0
        print(
            f"{keys:,} keys, {counts.resizes:,} sizes, {counts.prompts:,} prompts, "
            f"{counts.loads:,} loads of which {counts.cancels:,} were cancelled, {hours:.2f} h: "
            f"{'; '.join(problems) or 'nothing grew, nothing is left'}"
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
