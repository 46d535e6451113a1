"""Measure processors and memory of one host."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from cluster_benchmark.row import GB, MB, Row

CPU: Final = "CPU"
MEMORY: Final = "Memory"
_REPEATS: Final = 5
_SHORT_S: Final = 1.0


def measure() -> list[Row]:
    """Return the rows of this host, on the CPUs that this process may use."""
    return [_stress(), _matmul(), _compression(), _sorting(), _copy(), _allocation()]


def cpus() -> int:
    """Return the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stress() -> Row:
    """Hash 64 KiB blocks in one thread per CPU; hashing releases the interpreter lock."""
    block = bytes(1 << 16)

    def hashes(_: int) -> int:
        count, end = 0, time.perf_counter() + _SHORT_S
        while time.perf_counter() < end:
            hashlib.sha256(block).digest()
            count += 1
        return count

    with ThreadPoolExecutor(cpus()) as pool:
        total = sum(pool.map(hashes, range(cpus())))
    method = f"SHA-256 of 65536 bytes, {cpus()} threads, {_SHORT_S:g} s"
    test = "Multi-core stress (all cores)"
    return Row("cpu_stress", CPU, test, total / _SHORT_S / 1e3, "K ops/s", method=method)


def _matmul() -> Row:
    size = 2048
    one = np.random.default_rng(0).random((size, size))
    row = Row(
        "cpu_matmul",
        CPU,
        "Matrix multiply (NumPy)",
        None,
        "GFLOPS",
        method=f"2 n^3 / t, float64, n = {size}, NumPy's own number of threads",
    )
    return row.measured([2 * size**3 / seconds / 1e9 for seconds in _seconds(lambda: one @ one)])


def _compression() -> Row:
    data = np.random.default_rng(0).integers(0, 16, 8 * MB, dtype=np.uint8).tobytes()
    row = Row(
        "cpu_compression",
        CPU,
        "Compression (zlib)",
        None,
        "MB/s",
        MB,
        method="zlib level 6, one thread, 8 MB of random half bytes",
    )
    return row.measured([len(data) / MB / one for one in _seconds(lambda: zlib.compress(data, 6))])


def _sorting() -> Row:
    values = np.random.default_rng(0).random(5_000_000)
    row = Row(
        "cpu_sorting",
        CPU,
        "Sorting (NumPy)",
        None,
        "M elements/s",
        method="5,000,000 float64, one thread",
    )
    return row.measured([len(values) / 1e6 / one for one in _seconds(lambda: np.sort(values))])


def _copy() -> Row:
    source = np.ones(256 << 20, np.uint8)
    target = np.empty_like(source)
    row = Row(
        "memory_bandwidth",
        MEMORY,
        "Bandwidth (copy)",
        None,
        "GB/s",
        GB,
        method=f"bytes read and written by a copy of {source.nbytes} bytes, one thread",
    )
    taken = _seconds(lambda: np.copyto(target, source))
    return row.measured([2 * source.nbytes / one / GB for one in taken])


def _allocation() -> Row:
    """Allocate 1 MiB and write one byte per page: untouched pages are not allocated."""
    count, end = 0, time.perf_counter() + _SHORT_S
    while time.perf_counter() < end:
        np.empty(1 << 20, np.uint8)[::4096] = 1
        count += 1
    return Row(
        "memory_allocation",
        MEMORY,
        "Allocation/deallocation",
        count / _SHORT_S,
        "ops/s",
        method="1 MiB allocated, every page touched, freed; the allocator may give it out again",
    )


def _seconds(work: Callable[[], object]) -> list[float]:
    work()
    samples = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        samples.append(time.perf_counter() - started)
    return samples
