"""Run one input through a reader under limits; everything but an answer or a refusal is a finding.

A reader answers or refuses a file with one printable line. Findings are: any other exception, an
``InternalError``, more CPU time or memory than the bounds below, a message of several lines or
with control characters, and a difference between two ways of reading the same text.
"""

from __future__ import annotations

import hashlib
import resource
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from fuzz_mutators import Mutator
from msgspec import Struct

from ccltui.parsers.errors import GrammarError, InternalError, TraceError

CPU_S: Final = 10
"""CPU time for one input, however busy the machine is."""
MEMORY_BYTES: Final = 128 << 20
"""By how much one input (of at most 256 KiB) may raise the peak memory of the process."""
_PARENT: Final = "parsers"


class HangError(BaseException):
    """An input took longer than `CPU_S`; no reader catches it."""


class Target(Struct, frozen=True):
    """A reader under test.

    Attributes:
        name: Its name on the command line.
        what: What it reads, for tables.
        seeds: Valid inputs to begin with.
        mutate: Mutator that keeps their structure.
        run: Reads an input, written to the path or given as bytes; AssertionError: a difference.
        refusals: Errors by which it refuses an input.
        as_file: Name of the file that ``run`` opens.
    """

    name: str
    what: str
    seeds: Callable[[], list[bytes]]
    mutate: Mutator
    run: Callable[[bytes, Path], object]
    refusals: tuple[type[BaseException], ...] = (TraceError,)
    as_file: str = "input"


class Finding(Struct, frozen=True):
    """What went wrong with an input; findings with one ``key`` are one defect."""

    target: str
    key: str
    report: str


class Guard(Struct):
    """Limits around the runs of one target, and what was measured."""

    target: Target
    folder: Path
    slowest_s: float = 0.0
    largest_growth: int = 0
    refused: int = 0
    inputs: int = 0
    _previous: object = None

    def __post_init__(self) -> None:
        signal.signal(signal.SIGPROF, _stop)

    def run(self, data: bytes) -> Finding | None:
        """Run one input; return what is wrong, None where nothing is."""
        path = self.folder / self.target.as_file
        # a new file: the file system flushes one that is truncated and written again
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        forget_peak()
        peak = peak_bytes()
        begun = time.process_time()
        found: Finding | None = None
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        try:
            self.target.run(data, path)
        except self.target.refusals as error:
            self.refused += 1
            found = self._message(error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            found = self._finding(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.inputs += 1
        self.slowest_s = max(self.slowest_s, time.process_time() - begun)
        growth = peak_bytes() - peak
        self.largest_growth = max(self.largest_growth, growth)
        if growth > MEMORY_BYTES:
            report = f"{len(data):,} bytes of input took {growth:,} bytes of memory"
            found = found or Finding(self.target.name, "memory", report)
        return found

    def _message(self, error: BaseException) -> Finding | None:
        text = str(error)
        if isinstance(error, InternalError):
            return self._finding(error.__cause__ or error)
        if isinstance(error.__cause__, MemoryError):
            return self._finding(error.__cause__)
        if text and (text.isprintable() or isinstance(error, GrammarError)):
            return None
        return Finding(self.target.name, f"message {_place(error)}", f"message: {text!r:.600}")

    def _finding(self, error: BaseException) -> Finding:
        report = "".join(traceback.format_exception(error))
        key = f"{type(error).__name__} {_place(error)}"
        if isinstance(error, AssertionError):
            key = f"difference {' '.join(str(error).split()[:6])}"
        return Finding(self.target.name, key, report)


def forget_peak() -> bool:
    """Set the peak memory of this process to what it has now; return False where that is refused.

    Without this, an input goes unnoticed that takes less than an earlier input of the process took.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int:
    """Return the peak resident memory of this process since `forget_peak`, in bytes.

    By ``getrusage`` only where the kernel tells no more: that includes the program before ``exec``.
    """
    status = Path("/proc/self/status").read_text("ascii", "replace")
    peak = status.partition("VmHWM:")[2].split(maxsplit=1)
    return 1024 * (int(peak[0]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _place(error: BaseException) -> str:
    """Return the last line of the package that an error passed."""
    places = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/parsers/" in frame.filename or "/ccltui/" in frame.filename
    ]
    return places[-1] if places else "outside"


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise HangError(f"more than {CPU_S} s of CPU time")


def kept(folder: Path, finding: Finding, data: bytes) -> Path:
    """Keep an input with its report, once for each key."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.blake2b(finding.key.encode(), digest_size=6).hexdigest()
    path = folder / f"{finding.target}-{digest}.input"
    if not path.exists():
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(f"{finding.key}\n{finding.report}", "utf-8", "replace")
    return path
