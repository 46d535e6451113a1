"""Measure the reading of pickled flight recorder dumps, in CPU seconds.

    python -m bench.flight_dumps [--dumps N] [--entries N] [--frames N] [--rounds N]

Writes one dump as PyTorch's own pickler does (protocol 2; texts and frames that occur twice are in
the memo) with entries of 60 places of a program, and prints the CPU seconds of reading it, and of
as many dumps as asked for.
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.measure import Spread
from ccltui.parsers.flight_recorder.read_dump import read_flight_dump

_PLACES: Final = 60
_SHARED: Final = 20
"""Outer frames of a stack that all places have."""
_START_NS: Final = 1_780_000_000_000_000_000
_NAME: Final = "nccl_trace_rank_0"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a dump, read it several times, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--dumps", type=int, default=64)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--frames", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _NAME
        path.write_bytes(pickled(dump(options.entries, options.frames)))
        seconds = [_seconds(path) for _ in range(options.rounds)]
        size = path.stat().st_size
    each = Spread.of(seconds)
    row = {"bytes": size, "cpu_s": each.median, "low": each.low, "high": each.high}
    print(json.dumps({**row, "dumps": options.dumps, "all_cpu_s": each.median * options.dumps}))
    return 0


def _seconds(path: Path) -> float:
    began = time.process_time()
    read_flight_dump(path, shown=path.name)
    return time.process_time() - began


def dump(entries: int, frames: int) -> dict[str, Any]:
    """Return a dump of a rank in two groups, the frames of its stacks shared."""
    outer = [_frame(f"outer_{number}", number) for number in range(min(frames, _SHARED))]
    stacks = [
        [_frame(f"call_{place}_{number}", number) for number in range(frames - len(outer))] + outer
        for place in range(_PLACES)
    ]
    groups = {"0": "default_pg", "1": "mesh_tp"}
    return {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": text, "ranks": "[0, 1]"} for name, text in groups.items()
        },
        "pg_status": {name: {"last_enqueued_collective": entries} for name in groups},
        "comm_lib_version": "2.27.5",
        "entries": [_entry(100_000 + row, stacks[row % _PLACES]) for row in range(entries)],
    }


def _frame(name: str, line: int) -> dict[str, Any]:
    return {"name": name, "filename": f"/job/lib/module_{line}.py", "line": 100 + 7 * line}


def _entry(number: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
    shape = [1024 * (1 + number % 4), 4096]
    began = _START_NS + number * 1_000_000
    return {
        "frames": list(frames),
        "record_id": number,
        "pg_id": number % 2,
        "process_group": ("01"[number % 2], ("default_pg", "mesh_tp")[number % 2]),
        "thread_name": "pt_main_thread",
        "thread_id": "140234567890",
        "collective_seq_id": number // 2,
        "p2p_seq_id": 0,
        "op_id": number // 2,
        "profiling_name": ("nccl:all_reduce", "nccl:_all_gather_base")[number % 2],
        "time_created_ns": began,
        "duration_ms": 1.5 + number % 7,
        "input_sizes": [shape],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [list(shape)],
        "output_dtypes": ["BFloat16"],
        "state": "completed",
        "time_discovered_started_ns": began + 1000,
        "time_discovered_completed_ns": began + 900_000,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


def pickled(value: Any) -> bytes:
    """Return a value as PyTorch's own pickler writes it."""
    return b"\x80\x02" + b"".join(_Pickler().opcodes(value)) + b"."


class _Pickler:
    def __init__(self) -> None:
        self._memo: dict[str | int, int] = {}

    def opcodes(self, value: Any) -> list[bytes]:
        """Return the opcodes of a value; a frame, which has a line, is put into the memo."""
        key = value if isinstance(value, str) else id(value)
        if key in self._memo:
            return [_numbered(b"hj", self._memo[key])]
        if isinstance(value, str):
            text = value.encode()
            return [b"X", struct.pack("<I", len(text)), text, self._put(key)]
        if isinstance(value, list):
            return [b"](", *(part for one in value for part in self.opcodes(one)), b"e"]
        if isinstance(value, tuple):
            return [*(part for one in value for part in self.opcodes(one)), b"\x86"]
        if isinstance(value, dict):
            parts = [part for pair in value.items() for one in pair for part in self.opcodes(one)]
            return [b"}(", *parts, b"u", *([self._put(key)] if "line" in value else [])]
        return [_simple(value)]

    def _put(self, key: str | int) -> bytes:
        self._memo[key] = len(self._memo)
        return _numbered(b"qr", self._memo[key])


def _numbered(codes: bytes, index: int) -> bytes:
    return codes[:1] + bytes([index]) if index < 256 else codes[1:] + struct.pack("<I", index)


def _simple(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    forms = ((1 << 8, b"K", "<B"), (1 << 16, b"M", "<H"), (1 << 31, b"J", "<i"))
    for limit, code, form in forms:
        if 0 <= value < limit:
            return code + struct.pack(form, value)
    return b"\x8a\x08" + struct.pack("<q", value)


if __name__ == "__main__":
    raise SystemExit(main())
