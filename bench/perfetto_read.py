"""Measure the reading of Perfetto traces as PyTorch writes them.

    python -m bench.perfetto_read [--megabytes N] [--general]

Writes a file with operators, launches and kernels with arguments, reads it in a process of its own
and prints its bytes and events, CPU seconds, megabytes a CPU second and peak resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_EVENTS: Final = 3000
_START_NS: Final = 1_780_000_000_000_000_000
_NAMES: Final = (
    "aten::mm",
    "aten::add",
    "cudaLaunchKernel",
    "sm90_gemm",
    "ncclDevKernel_AllReduce",
)
_CHILD: Final = """
import json, resource, sys, time
from pathlib import Path
from ccltui.parsers.pftrace.pftrace_reader import read_pftrace
began = time.process_time()
(trace,) = read_pftrace(Path(sys.argv[1]))
cpu_s = time.process_time() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
events = sum(len(rows) for rows in trace.events.values())
print(json.dumps({"events": events, "cpu_s": round(cpu_s, 3), "peak_mib": round(peak, 1)}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a file, read it, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--general", action="store_true", help="without compiled code")
    options = parser.parse_args(arguments)
    accel = "0" if options.general else "1"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.pftrace"
        with path.open("wb") as file:
            file.write(_head())
            number = 0
            while file.tell() < options.megabytes * 1_000_000:
                file.writelines(_group(number))
                number += 1
        size = path.stat().st_size
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, path],
            env=os.environ | {"CCLTUI_ACCEL": accel},
            capture_output=True,
            check=True,
        )
    row = json.loads(done.stdout)
    print(json.dumps({"bytes": size, **row, "mb_per_cpu_s": round(size / 1e6 / row["cpu_s"])}))
    return 0


def _head() -> bytes:
    thread = _field(1, 10) + _field(2, 11) + _field(5, b"main")
    found = _packet(_field(60, _field(1, 1) + _field(4, thread)))
    texts = [_field(2, _field(1, n) + _field(2, name.encode())) for n, name in enumerate(_NAMES, 1)]
    texts += [
        _field(1, _field(1, n) + _field(2, c)) for n, c in ((1, b"cpu_op"), (2, b"cuda_runtime"))
    ]
    texts += [
        _field(24, _field(1, n) + _field(2, c)) for n, c in ((1, b"Kernel"), (100, b"[07] x"))
    ]
    return found + _packet(_field(10, 1) + _field(13, 1) + _field(12, b"".join(texts)))


def _group(number: int) -> Iterator[bytes]:
    """Yield the begins of operators and launches, their ends, and the kernels that they launch."""
    first = _START_NS + number * _EVENTS * 2000
    shapes = [_field(12, _field(4, size)) for size in (4096, 4096)]
    shape = _argument("Input Dims", b"".join(_field(12, b"".join(shapes)) for _ in range(2)))
    for one in range(_EVENTS):
        external = _argument("External id", _field(4, number * _EVENTS + one))
        yield _begin(first + one * 2000, 1 + one % 2, 1, external + (b"" if one % 2 else shape))
    for one in range(_EVENTS):
        yield _end(first + one * 2000 + 1500)
    for one in range(_EVENTS):
        launch = _argument("correlation", _field(4, number * _EVENTS + one + 1))
        yield _begin(first + one * 2000 + 500, 3, 2, _argument("cbid", _field(4, 211)) + launch)
    for one in range(_EVENTS):
        yield _end(first + one * 2000 + 900)
    for one in range(_EVENTS):
        yield _kernel(first + one * 2000 + 1000, number * _EVENTS + one + 1, 4 + one % 2)


def _begin(time_ns: int, name: int, category: int, arguments: bytes) -> bytes:
    stated = _field(9, 1) + _field(11, 1) + _field(10, name) + _field(3, category) + arguments
    return _packet(_field(8, time_ns) + _field(10, 1) + _field(13, 2) + _field(11, stated))


def _end(time_ns: int) -> bytes:
    return _packet(_field(8, time_ns) + _field(10, 1) + _field(11, _field(9, 2) + _field(11, 1)))


def _kernel(time_ns: int, launch: int, name: int) -> bytes:
    stated = _field(1, launch) + _field(2, 900) + _field(11, 0) + _field(13, 100) + _field(14, 1)
    stated += _field(20, name) + _field(21, _field(1, _field(1, 16) + _field(2, 1) + _field(3, 1)))
    for key, value in (("device id", "0"), ("stream id", "7"), ("correlation", str(launch))):
        stated += _field(6, _field(1, key.encode()) + _field(2, value.encode()))
    return _packet(_field(8, time_ns) + _field(10, 1) + _field(13, 2) + _field(53, stated))


def _argument(key: str, value: bytes) -> bytes:
    return _field(4, _field(10, key.encode()) + value)


def _packet(data: bytes) -> bytes:
    return _field(1, data)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


if __name__ == "__main__":
    sys.exit(main())
