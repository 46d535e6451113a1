"""Measure the file system of a folder: sequential, many workers, random reads, all hosts.

Reading what was just written measures memory, not disks. Reads go around the page cache
(O_DIRECT) where the file system allows it; where it does not, the cache is asked to drop the file
and the number is marked ``cached``. Writing counts until the data is on the device (fsync).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster_benchmark.row import MB, Row

PER_NODE: Final = "Storage I/O (per-node)"
AGGREGATE: Final = "Storage I/O (multi-node aggregate)"
_BLOCK: Final = 4 << 20
_PAGE: Final = 4096
_RANDOM_SECONDS: Final = 2.0
_ON_DEVICE = "until it is on the device (fsync)"


@dataclass(frozen=True, slots=True)
class Plan:
    """Folder, sizes and number of workers of the measurements."""

    folder: Path
    file_bytes: int
    workers: int


def measure(plan: Plan) -> list[Row]:
    """Return the rows of this host. Raises OSError where the files cannot be written."""
    with _scratch(plan.folder) as folder:
        whole = folder / "sequential"
        writing = _timed(lambda: _write(whole, plan.file_bytes))
        direct, reading = _timed_read(whole)
        share = max(plan.file_bytes // plan.workers // _BLOCK, 1) * _BLOCK
        files = [folder / f"part-{number}" for number in range(plan.workers)]
        total = share * plan.workers
        with ThreadPoolExecutor(plan.workers) as pool:
            parallel_writing = _timed(
                lambda: list(pool.map(lambda file: _write(file, share), files))
            )
            parallel_reading = _timed(lambda: list(pool.map(_read, files)))
            operations = sum(pool.map(_random_reads, [whole] * plan.workers))
    read_by, marks = _reading(direct)
    many = f"{plan.workers} workers"
    return [
        _row("sequential_write", "Sequential Write", plan.file_bytes / writing, _ON_DEVICE),
        _row("sequential_read", "Sequential Read", plan.file_bytes / reading, read_by, marks),
        _row("parallel_write", f"Parallel Write ({many})", total / parallel_writing, _ON_DEVICE),
        _row("parallel_read", f"Parallel Read ({many})", total / parallel_reading, read_by, marks),
        Row(
            "storage_random_iops",
            PER_NODE,
            "Random IOPS (4K blocks)",
            operations / _RANDOM_SECONDS,
            "ops/s",
            method=f"reads of 4096 bytes by {many}, one at a time each; {read_by}",
            marks=marks,
        ),
    ]


def measure_together(
    plan: Plan, start: Callable[[], None], everywhere: Callable[[float], list[float]]
) -> list[Row]:
    """Return the rows of all hosts that write and read at once, each a file of its own.

    ``start`` waits until every host is ready; ``everywhere`` gives the seconds of each of them.
    """
    with _scratch(plan.folder) as folder:
        file = folder / "aggregate"
        start()
        writing = everywhere(_timed(lambda: _write(file, plan.file_bytes)))
        start()
        direct, seconds = _timed_read(file)
        reading = everywhere(seconds)
    read_by, marks = _reading(direct)
    total = plan.file_bytes * len(writing)
    hosts = f"{len(writing)} hosts at once, until the last has ended"
    return [
        _row("aggregate_write", "Write bandwidth", total / max(writing), f"{hosts}; {_ON_DEVICE}"),
        _row(
            "aggregate_read", "Read bandwidth", total / max(reading), f"{hosts}; {read_by}", marks
        ),
    ]


def _row(name: str, test: str, speed: float, method: str, marks: tuple[str, ...] = ()) -> Row:
    category = AGGREGATE if name.startswith("aggregate") else PER_NODE
    return Row(
        f"storage_{name}", category, test, speed / MB, "MB/s", MB, method=method, marks=marks
    )


def _reading(direct: bool) -> tuple[str, tuple[str, ...]]:
    if direct:
        return "around the page cache (O_DIRECT)", ()
    return "page cache asked to drop the file; it may have answered all the same", ("cached",)


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=folder) as scratch:
        yield Path(scratch)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _timed_read(file: Path) -> tuple[bool, float]:
    started = time.perf_counter()
    direct = _read(file)
    return direct, time.perf_counter() - started


def _write(file: Path, size: int) -> None:
    block = memoryview(os.urandom(_BLOCK))  # zeros could be compressed away below us
    with file.open("wb", buffering=0) as opened:
        left = size
        while left > 0:
            left -= opened.write(block[: min(left, _BLOCK)])
        os.fsync(opened.fileno())


def _open_direct(file: Path) -> tuple[int, bool]:
    """Return a descriptor, and whether it bypasses the page cache."""
    with contextlib.suppress(OSError, AttributeError):
        return os.open(file, os.O_RDONLY | os.O_DIRECT), True
    descriptor = os.open(file, os.O_RDONLY)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return descriptor, False


def _read(file: Path) -> bool:
    """Read a whole file; return whether it bypassed the page cache."""
    descriptor, direct = _open_direct(file)
    try:
        with mmap.mmap(-1, _BLOCK) as buffer:  # O_DIRECT wants memory aligned to pages
            place = 0
            while (count := os.preadv(descriptor, [buffer], place)) > 0:
                place += count
    finally:
        os.close(descriptor)
    return direct


def _random_reads(file: Path) -> int:
    """Read single pages at random offsets for a while; return the number of reads."""
    descriptor, _ = _open_direct(file)
    pages = max(file.stat().st_size // _PAGE, 1)
    places = random.Random()
    count = 0
    try:
        with mmap.mmap(-1, _PAGE) as buffer:
            end = time.perf_counter() + _RANDOM_SECONDS
            while time.perf_counter() < end:
                os.preadv(descriptor, [buffer], places.randrange(pages) * _PAGE)
                count += 1
    finally:
        os.close(descriptor)
    return count
