"""CPUs and memory that this process may use, and whether compiled code is wanted.

Limits are those of Slurm, affinity and control groups. Freed memory is given back to the system
where the C library can.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

MAX_WORKERS = 8
_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 60
_SHARE = 0.6
"""Of the memory that is free now; the rest is left to other processes."""
_WORKER_BYTES = 120 << 20
_BYTES_PER_TEXT_BYTE = 0.35
"""Peak columns of a worker against the uncompressed text it reads (about 70 B an event)."""
_BYTES_PER_EXPORT_BYTE = 0.2
"""The same of an sqlite export of nsys: measured are 0.07 with eight ranks, 0.17 with one."""
_BYTES_PER_BYTE = {
    "none": _BYTES_PER_TEXT_BYTE,
    "gzip": 20.0 * _BYTES_PER_TEXT_BYTE,
    "zstd": 20.0 * _BYTES_PER_TEXT_BYTE,
    "export": _BYTES_PER_EXPORT_BYTE,
}


def allowed_cpus() -> int:
    """CPUs this process may use: the least of Slurm's grant, affinity and cgroup quota."""
    limits = [os.cpu_count() or 1]
    if hasattr(os, "sched_getaffinity"):
        limits.append(len(os.sched_getaffinity(0)))
    granted = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if granted.isdecimal():
        limits.append(int(granted))
    quota = _cgroup_cpus()
    if quota is not None:
        limits.append(quota)
    return max(min(limits), 1)


def available_memory() -> int:
    """Bytes that can still be used: what the machine has free, within the cgroup's limit."""
    return min(_machine_memory(Path("/proc/meminfo")), _cgroup_memory())


def resident_memory() -> int | None:
    """Bytes of memory that this process takes now, mapped files included; None if not told."""
    fields = _text(Path("/proc/self/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else None


def address_space() -> int:
    """Bytes of address space that one process may have (``ulimit -v``)."""
    import resource  # noqa: PLC0415  (few ask)

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def workers_for(files: Sequence[tuple[int, str]], jobs: int | None = None) -> int:
    """Worker processes for ``files``: what CPUs and memory allow.

    A file is its bytes and its form: its compression ("none", "gzip", "zstd"), or "export".
    ``jobs`` states the number of processes; memory may still lower it, never below one.
    """
    wanted = min(jobs or min(allowed_cpus(), MAX_WORKERS), len(files))
    budget = available_memory() * _SHARE
    needs = sorted((peak_bytes(*file) for file in files), reverse=True)
    count, total = 0, 0.0
    for need in needs[:wanted]:
        total += need
        if total > budget:
            break
        count += 1
    return max(count, 1)


def peak_bytes(size_bytes: int, form: str) -> float:
    """Most memory of a process that reads one file, in bytes; ``form`` as of `workers_for`."""
    return _WORKER_BYTES + size_bytes * _BYTES_PER_BYTE[form]


def _machine_memory(meminfo: Path) -> int:
    for line in _text(meminfo).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return _UNLIMITED


def _cgroup_memory() -> int:
    """Least limit less use of this process's control groups; unlimited where there is none."""
    second = [(group, "memory.max", "memory.current") for group in _groups("", "")]
    first = [
        (group, "memory.limit_in_bytes", "memory.usage_in_bytes")
        for group in _groups("memory", "memory")
    ]
    return min(_left(group / limit, group / used) for group, limit, used in second + first)


def _left(limit: Path, used: Path) -> int:
    stated, current = _text(limit).strip(), _text(used).strip()
    if not (stated.isdecimal() and current.isdecimal()):
        return _UNLIMITED
    return max(min(int(stated), _UNLIMITED) - int(current), 0)


def _cgroup_cpus() -> int | None:
    """Least quota of this process's control groups in whole CPUs, rounded up."""
    quotas = [_text(group / "cpu.max").split() for group in _groups("", "")]
    cpus = [
        max(math.ceil(int(quota[0]) / int(quota[1])), 1)
        for quota in quotas
        if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1])
    ]
    return min(cpus, default=None)


def _groups(controller: str, mount: str) -> list[Path]:
    """The control group of this process and those around it ("" names version 2)."""
    root = _CGROUP / mount
    for line in _text(_MEMBERSHIP).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            own = root / path.strip("/")
            return [own, *(parent for parent in own.parents if parent.is_relative_to(root))]
    return [root]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


LARGEST: Final = (32 << 20) - (1 << 16)
"""Largest block whose release changes the threshold of the GNU C library."""


def keep_freed(size_bytes: int) -> None:
    """Have blocks of up to so many bytes reused, at most `LARGEST`.

    By default each is a mapping of its own: given back to the system when it is freed, and zeroed
    page by page when the next one is taken. The GNU C library raises its threshold to the largest
    block that was ever freed (mallopt(3), M_MMAP_THRESHOLD), so one is taken and freed here, which
    touches none of its pages. Other C libraries are not affected.
    """
    bytes(min(size_bytes, LARGEST))


def keep_all_freed() -> None:
    """Have blocks of every size reused, for work on columns of many ranks at once.

    No threshold above `LARGEST` can be set: no block is a mapping of its own any more (mallopt(3),
    M_MMAP_MAX), and freed memory stays with the process (M_TRIM_THRESHOLD) until `trim_heap`.
    Clearing new pages took 6 of 53 CPU-s for 1,024 ranks by 5,000 collectives.
    """
    set_option = _function_of_c("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_MAX, 0)
        set_option(_M_TRIM_THRESHOLD, (1 << 31) - 1)


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4


def trim_heap() -> None:
    """Return freed memory to the system; without effect where the C library cannot, as musl."""
    trim = _function_of_c("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _function_of_c(name: str) -> Callable[..., int] | None:
    """Return a function of the C library in use, None where it has none of that name."""
    import ctypes  # noqa: PLC0415  (milliseconds that most commands save)

    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return found


def wants_compiled_code() -> bool:
    """Whether compiled code is used where it was built: ``CCLTUI_ACCEL=0`` turns all of it off."""
    return os.environ.get("CCLTUI_ACCEL", "1") != "0"
