"""Output of nccl-tests: a table of sizes, times and bandwidths, out of place and in place."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.bounded_text import read_bounded

_HEADER: Final = re.compile(r"#\s+size\s+count\s+type\b")
_STARTING: Final = re.compile(r"# Collective test starting: (\S+)")
_PROGRAM: Final = re.compile(r"\b(\w+)_perf(?:_mpi)?\b")
_VERSION: Final = re.compile(r"nccl-library=(\d{1,9})(?!\d)|NCCL version (\d[\w.+-]*)")
_DEVICE: Final = re.compile(r"#\s+Rank\s+(\d{1,9}) .*? on\s+(\S+) device\s+(\d+) \[[^\]]*\] (.+)")
_OUT_OF_BOUNDS: Final = re.compile(r"# Out of bounds values : (\d{1,18})(?!\d)")
_AVERAGE: Final = re.compile(r"# Avg bus bandwidth\s*:\s*(\d{1,18}(?:\.\d*)?)(?![\d.])")
_MOST: Final = 2.0**63
"""Sizes and counts below it are integers of 64 bits."""
_FAILURE: Final = re.compile(r"Test (?:NCCL|CUDA) failure.*|Test failure .*")


@dataclass(frozen=True)
class NcclTest:
    """One run of one test: columns of one length, a row a size.

    ``size_bytes`` int64; times in µs, bandwidths in decimal GB/s, float64, NaN where not
    printed; wrong values -1 where they were not checked.
    """

    collective: str
    dtype: tuple[str, ...]
    size_bytes: I64
    out_time_us: F64
    out_algbw: F64
    out_busbw: F64
    in_time_us: F64
    in_algbw: F64
    in_busbw: F64
    wrong: I64
    ranks: int | None = None
    hosts: tuple[str, ...] = ()
    device_names: tuple[str, ...] = ()
    nccl_version: str = ""
    average_busbw: float | None = None
    out_of_bounds: int | None = None
    problem: str = ""
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.size_bytes)


@dataclass(slots=True)
class _Open:
    """A test whose last row has not been read."""

    collective: str = ""
    version: str = ""
    header: bool = False
    rows: list[tuple[float, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    devices: dict[int, tuple[str, str]] = field(default_factory=dict)
    average: float | None = None
    out_of_bounds: int | None = None
    problem: str = ""
    bad: int = 0


def read_nccl_tests(path: Path, *, shown: str) -> tuple[NcclTest, ...]:
    """Every test in a file, among other output.

    Raises TraceError for a file that cannot be read or holds none.
    """
    text = read_bounded(path, shown=shown)
    tests = [_Open()]
    for part in text.parts:
        for line in part.split("\n"):
            _take(line[:2000], tests)
    found = [one for one in tests if one.header]
    if not found:
        raise TraceError("no table of nccl-tests in it", path=shown)
    return tuple(_test(one, text.notes) for one in found)


def _take(line: str, tests: list[_Open]) -> None:
    one = tests[-1]
    if "# nccl-tests version" in line or "# Collective test starting" in line:
        if one.header:
            tests.append(_Open(collective=one.collective))
            one = tests[-1]
        starting = _STARTING.search(line)
        one.collective = _name(starting[1]) if starting else one.collective
    version = _VERSION.search(line)
    if version:
        one.version = _version(version[1]) if version[1] else version[2]
    if line.lstrip().startswith("#"):
        _take_comment(line, tests)
    elif one.header:
        _take_row(line, one)
    elif not one.collective and (program := _PROGRAM.search(line)):
        one.collective = _name(program[0])
    failure = _FAILURE.search(line)
    if failure and not one.problem:
        one.problem = failure[0][:160]


def _take_comment(line: str, tests: list[_Open]) -> None:
    one = tests[-1]
    if _HEADER.search(line) is not None:
        if one.rows:
            tests.append(_Open(collective=one.collective, version=one.version))
            one = tests[-1]
        one.header = True
    elif (device := _DEVICE.search(line)) is not None:
        one.devices[int(device[1])] = device[2], device[4].strip()
    elif (out := _OUT_OF_BOUNDS.search(line)) is not None:
        one.out_of_bounds = int(out[1])
    elif (average := _AVERAGE.search(line)) is not None:
        one.average = float(average[1])


def _take_row(line: str, one: _Open) -> None:
    """Columns: size, count, type, [redop], [root], then time, algbw, busbw, #wrong, twice."""
    cells = line.split()
    if len(cells) < 7 or not (cells[0].isdecimal() and cells[1].isdecimal()):
        return
    # Between the type and the times stand redop and root, as far as the version prints them.
    numbers = cells[-8:] if len(cells) >= 11 else cells[-6:]
    size = _float(cells[0])
    is_row = len(numbers) + 3 <= len(cells) and math.isfinite(_float(numbers[0]))
    if not is_row or size >= _MOST:
        one.bad += 1
        return
    half = len(numbers) // 2
    parts = [_half(numbers[:half]), _half(numbers[half:])]
    known = [part[3] for part in parts if part[3] >= 0]
    wrong = sum(known) if known else -1
    one.rows.append((size, *parts[0][:3], *parts[1][:3], wrong))
    one.dtypes.append(cells[2])


def _half(cells: list[str]) -> tuple[float, float, float, float]:
    values = [_float(cell) for cell in cells]
    wrong = values[3] if len(values) > 3 and 0 <= values[3] < _MOST else -1.0
    return values[0], values[1], values[2], wrong


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _name(program: str) -> str:
    return program.rpartition("/")[2].removesuffix("_mpi").removesuffix("_perf")


def _version(code: str) -> str:
    """22501 is 2.25.1; up to 2.8 the code had four digits."""
    number = int(code)
    if number < 10_000:
        return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def _test(one: _Open, notes: tuple[Note, ...]) -> NcclTest:
    columns = [np.array(column, np.float64) for column in zip(*one.rows, strict=True)]
    columns = columns or [np.zeros(0)] * 8
    if one.bad:
        notes = (*notes, Note("bad_row", f"{one.bad} rows of another form", count=one.bad))
    return NcclTest(
        collective=one.collective or "unknown",
        dtype=tuple(one.dtypes),
        size_bytes=columns[0].astype(np.int64),
        out_time_us=columns[1],
        out_algbw=columns[2],
        out_busbw=columns[3],
        in_time_us=columns[4],
        in_algbw=columns[5],
        in_busbw=columns[6],
        wrong=columns[7].astype(np.int64),
        ranks=len(one.devices) or None,
        hosts=tuple(dict.fromkeys(host for host, _ in one.devices.values())),
        device_names=tuple(dict.fromkeys(name for _, name in one.devices.values())),
        nccl_version=one.version,
        average_busbw=one.average,
        out_of_bounds=one.out_of_bounds,
        problem=one.problem,
        notes=notes,
    )
