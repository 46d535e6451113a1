"""Output of nccl-tests: tables of sizes, times and bandwidths, out of place and in place.

A table is read by its header: options and versions add columns (``-S`` a time stamp, ``-I`` times
of iterations), leave cells blank, or rename them. Several processes may print into one log, with
the tags of their launcher or without any.

The JSON of ``-J FILE`` holds the environment and the arguments of the process. Of the arguments the
name of the program is read, of the environment nothing: it is not even decoded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.file_sample import read_bounded
from ccltui.parsers.text.json_fields import read_text

_HEADER: Final = re.compile(r"#\s+size\s+count\s+type\b")
_SIDES: Final = re.compile(r"\bout-of-place\b|\bin-place\b")
_RANGE: Final = re.compile(
    r"\bmaxBytes (\d{1,18}) step: (\d{1,18})\s?\((factor|bytes)\)"  # what -b, -e, -f and -i ask for
)
_STARTING: Final = re.compile(r"# Collective test starting: (\S+)")
_PROGRAM: Final = re.compile(r"\b(\w+)_perf(?:_mpi)?\b")
_VERSION: Final = re.compile(r"nccl-library=(\d{1,9})(?!\d)|NCCL version (\d[\w.+-]*)")
_DEVICE: Final = re.compile(
    r"#\s+Rank\s+(\d{1,9}) .*?(?:\bPid\s+(\d{1,10}) .*?)? on\s+(\S+) device\s+(\d+) "
    r"\[[^\]]*\] (.+)"
)
_OUT_OF_BOUNDS: Final = re.compile(r"# Out of bounds values\s*:\s*(\d{1,18})(?!\d)")
_AVERAGE: Final = re.compile(
    r"# Avg bus bandwidth\s*:\s*(\d{1,18}(?:\.\d{0,18})?(?:[eE][-+]?\d{1,3})?)(?![\w.])"
)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK: Final = re.compile(r"\d\d:\d\d:\d\d\S*")
MOST: Final = 2.0**63
"""Sizes and counts below it are integers of 64 bits."""
_FAILURE: Final = re.compile(r"Test (?:NCCL|CUDA) failure.*|Test failure .*")
_TIMES: Final = ("time", "cputime")
_HALF: Final = ("time", "algbw", "busbw", "#wrong")
_WRONG: Final = ("#wrong", "error", "wrong")
MIXED: Final = (
    "{count} tests print into this log at once, and nothing states which row is of which: "
    "nccl-tests built without MPI is a world of its own in every process"
)


class NcclTest(Struct, frozen=True):
    """One run of one test: columns of one length, a row a size.

    ``size_bytes`` int64; times in µs, bandwidths in decimal GB/s, float64, NaN where not
    printed; wrong values -1 where they were not checked. ``writer`` is the tag of the process
    that printed it, where several did; ``mixed`` how many tests print into one log untagged.
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
    writer: str = ""
    mixed: int = 1
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.size_bytes)


class OpenTest(Struct):
    """A test whose last row has not been read."""

    collective: str = ""
    version: str = ""
    header: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    rows: list[tuple[float, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    devices: dict[int, tuple[str, str]] = field(default_factory=dict)
    average: float | None = None
    out_of_bounds: int | None = None
    problem: str = ""
    bad: int = 0
    writer: str = ""
    range: tuple[int, int, bool] | None = None  # largest size, step, whether it is a factor
    headers: int = 0
    footers: int = 0

    @property
    def mixed(self) -> int:
        """How many tests its lines are of."""
        return max(self.headers, self.footers, 1)

    @property
    def lacks_sizes(self) -> bool:
        """Whether the largest size that was asked for is not among the rows."""
        if self.range is None or not self.rows or self.mixed > 1:
            return False
        most, step, is_factor = self.range
        last = max(row[0] for row in self.rows)
        if is_factor:
            return last * max(step, 2) <= most
        # Sizes are rounded down to what divides among the ranks, by far less than a hundredth.
        return last + step <= most and last < 0.99 * most

    @property
    def is_over(self) -> bool:
        """Whether its last line, or the cause of its end, was read."""
        return self.footers > 0 or bool(self.problem)


def read_nccl_tests(path: Path, *, shown: str) -> tuple[NcclTest, ...]:
    """Every test in a file, among other output.

    Raises TraceError for a file that cannot be read or holds none.
    """
    text = read_bounded(path, shown=shown)
    writers: dict[str, list[OpenTest]] = {}
    for prefix, line in text.lines():
        writer = text.prefixes.source(prefix) if prefix else ""
        tests = writers.setdefault(writer, [OpenTest(writer=writer)])
        _take(line[:2000], tests)
    printing = {writer: tests for writer, tests in writers.items() if any(t.header for t in tests)}
    if not printing:
        raise TraceError("no table of nccl-tests in it", path=shown)
    program = next((one.collective for tests in writers.values() for one in tests), "")
    found = [one for tests in printing.values() for one in _apart(tests) if one.header]
    for one in found:
        one.collective = one.collective or program
        one.writer = one.writer if len(printing) > 1 else ""
    return tuple(made_test(one, text.notes) for one in found)


def _take(line: str, tests: list[OpenTest]) -> None:
    one = tests[-1]
    if "# nccl-tests version" in line or "# Collective test starting" in line:
        if one.header:
            tests.append(OpenTest(collective=one.collective, writer=one.writer))
            one = tests[-1]
        starting = _STARTING.search(line)
        one.collective = test_name(starting[1]) if starting else one.collective
    version = _VERSION.search(line)
    if version:
        one.version = version_name(int(version[1])) if version[1] else version[2]
    if line.lstrip().startswith("#"):
        _take_comment(line, tests)
    elif one.header:
        _take_row(line, one)
    elif len(tests) > 1 and not tests[-2].is_over and tests[-2].header and _is_row(line):
        _take_row(line, tests[-2])
    elif not one.collective and (program := _PROGRAM.search(line)):
        one.collective = test_name(program[0])
    failure = _FAILURE.search(line)
    if failure and not one.problem:
        one.problem = printable(failure[0][:160])


def _take_comment(line: str, tests: list[OpenTest]) -> None:
    one = tests[-1]
    if _HEADER.search(line) is not None:
        if one.rows:
            tests.append(
                OpenTest(collective=one.collective, version=one.version, writer=one.writer)
            )
            sides, one = one.sides, tests[-1]
            one.sides = sides
        one.headers += 1
        one.header = _whole_header(line.lstrip().lstrip("#").split())
    elif (device := _DEVICE.search(line)) is not None:
        known = (device[3], device[5].strip())
        one.devices.setdefault(int(device[1]), known)
    elif (out := _OUT_OF_BOUNDS.search(line)) is not None:
        one.out_of_bounds = int(out[1])
    elif (average := _AVERAGE.search(line)) is not None:
        one.footers += 1
        one.average = float(average[1])
    elif (asked := _RANGE.search(line)) is not None:
        one.range = (int(asked[1]), int(asked[2]), asked[3] == "factor")
    elif sides := tuple(_SIDES.findall(line)):
        one.sides = sides


def _apart(tests: Sequence[OpenTest]) -> list[OpenTest]:
    """Return the tests of one writer, as one where their rows cannot be told apart.

    A test with the last lines of two goes on while the one before it is not over.
    """
    found: list[OpenTest] = []
    for one in tests:
        while found and one.footers > one.headers and found[-1].header and not found[-1].is_over:
            before = found.pop()
            one.rows = before.rows + one.rows
            one.dtypes = before.dtypes + one.dtypes
            one.devices = before.devices | one.devices
            one.bad += before.bad
            one.headers += before.headers
        found.append(one)
    return found


def _whole_header(names: list[str]) -> tuple[str, ...]:
    """Return the columns; a second block that the line cuts off is like the first."""
    starts = [at for at, name in enumerate(names) if name in _TIMES]
    if len(starts) == 2:
        first, second = names[starts[0] : starts[1]], names[starts[1] :]
        if len(second) < len(first) and second[1:] == first[1 : len(second)]:
            names = [*names[: starts[1]], second[0], *first[1:]]
    return tuple(names)


def _take_row(line: str, one: OpenTest) -> None:
    if not _is_row(line):
        return
    cells = list(_with_whole_stamps(line.split()))
    size = number(cells[0])
    columns = next((names for names in _layouts(one.header) if _fits(names, cells)), None)
    if columns is None or size >= MOST:
        one.bad += 1
        return
    sides = _sides(columns, cells, one.sides)
    out, into = sides.get("out-of-place", _NOTHING), sides.get("in-place", _NOTHING)
    known = [side[3] for side in (out, into) if side[3] >= 0]
    one.rows.append((size, *out[:3], *into[:3], sum(known) if known else -1))
    one.dtypes.append(cells[2])


def _is_row(line: str) -> bool:
    cells = line.split(None, 5)
    return len(cells) > 4 and cells[0].isdecimal() and cells[1].isdecimal()


_NOTHING: Final = (math.nan, math.nan, math.nan, -1.0)


def _with_whole_stamps(cells: Sequence[str]) -> Iterator[str]:
    """Yield the cells; the date and the time of a stamp are one."""
    for at, cell in enumerate(cells):
        if at and _CLOCK.fullmatch(cell) and _DAY.fullmatch(cells[at - 1]):
            continue
        yield cell


def _layouts(header: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the columns that a row may have: some print blanks for what they have not.

    The operation and the root where a collective has none, and the out-of-place half.
    """
    starts = [at for at, name in enumerate(header) if name in _TIMES]
    half = range(starts[0], starts[1]) if len(starts) == 2 else range(0)
    optional = [[at] for at, name in enumerate(header) if name in ("redop", "root")]
    optional += [list(half)] if half else []
    if len(starts) == 1 and header[starts[0] :] == _HALF[: len(header) - starts[0]]:
        yield (*header[: starts[0]], *_HALF, *_HALF)  # the line is cut off
    for left_out in sorted(product((False, True), repeat=len(optional)), key=sum):
        gone = {
            at for rows, is_out in zip(optional, left_out, strict=True) if is_out for at in rows
        }
        yield tuple("" if at in gone else name for at, name in enumerate(header))


def _fits(columns: tuple[str, ...], cells: Sequence[str]) -> bool:
    present = [name for name in columns if name]
    if len(present) != len(cells):
        return False
    return all(_TESTS.get(name, _any)(cell) for name, cell in zip(present, cells, strict=True))


def _sides(
    columns: tuple[str, ...], cells: Sequence[str], named: Sequence[str]
) -> dict[str, tuple[float, float, float, float]]:
    """Return time, bandwidths and wrong values of each half that a row has."""
    place = iter(cells)
    values = [(name, next(place)) if name else ("", "") for name in columns]
    starts = [at for at, name in enumerate(columns) if name in _TIMES]
    blank = next((at for at, name in enumerate(columns) if not name and at > 4), None)
    count = len(starts) + (blank is not None)
    order = list(named) if len(named) == count else ["out-of-place", "in-place"]
    order = order[1:] if blank is not None and starts and blank < starts[0] else order
    found = {}
    for side, begin, end in zip(order, starts, [*starts[1:], len(columns)], strict=False):
        cells_of = dict(values[begin:end])
        wrong = next((cells_of[name] for name in _WRONG if name in cells_of), "")
        checked = number(wrong)
        found[side] = (
            number(cells_of.get("time", "")),
            number(cells_of.get("algbw", "")),
            number(cells_of.get("busbw", "")),
            checked if 0 <= checked < MOST else -1.0,
        )
    return found


def _any(_: str) -> bool:
    return True


def _is_number(cell: str) -> bool:
    return math.isfinite(number(cell))


def _is_count(cell: str) -> bool:
    return cell.removeprefix("-").isdecimal()


def _is_number_or_none(cell: str) -> bool:
    return cell.upper() == "N/A" or not math.isnan(number(cell)) or "nan" in cell.lower()


def _is_word(cell: str) -> bool:
    return not _is_number(cell)


_TESTS: Final[dict[str, Callable[[str], bool]]] = {
    "size": _is_count,
    "count": _is_count,
    "type": _is_word,
    "redop": _is_word,
    "root": _is_count,
    **dict.fromkeys(_TIMES, _is_number),
    "algbw": _is_number_or_none,
    "busbw": _is_number_or_none,
    **dict.fromkeys(_WRONG, _is_number_or_none),
}
"""What the cells of the columns that every version has look like."""


def number(text: str) -> float:
    """Return a number, NaN for any other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def test_name(program: str) -> str:
    """Return the collective that a program of nccl-tests measures: all_reduce."""
    return program.rpartition("/")[2].removesuffix("_mpi").removesuffix("_perf")


def version_name(code: int) -> str:
    """22501 is 2.25.1; up to 2.8 the code had four digits."""
    if code < 10_000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10_000}.{code // 100 % 100}.{code % 100}"


def made_test(one: OpenTest, notes: tuple[Note, ...]) -> NcclTest:
    """Return a test that was read to its end."""
    columns = [np.array(column, np.float64) for column in zip(*one.rows, strict=True)]
    columns = columns or [np.zeros(0)] * 8
    if one.bad:
        message = f"{one.bad} rows do not fit the header of their table and are not read"
        notes = (*notes, Note("bad_row", message, count=one.bad))
    if one.lacks_sizes and one.range is not None:
        last = max(row[0] for row in one.rows)
        message = (
            f"it ends at {last:,.0f} of {one.range[0]:,} bytes: larger sizes were not measured"
        )
        notes = (*notes, Note("unfinished_test", message))
    if one.mixed > 1:
        notes = (*notes, Note("mixed_tests", MIXED.format(count=one.mixed), count=one.mixed))
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
        ranks=len(one.devices) or None if one.mixed == 1 else None,
        hosts=tuple(dict.fromkeys(host for host, _ in one.devices.values())),
        device_names=tuple(dict.fromkeys(name for _, name in one.devices.values())),
        nccl_version=one.version,
        average_busbw=one.average if one.mixed == 1 else None,
        out_of_bounds=one.out_of_bounds if one.mixed == 1 else None,
        problem=one.problem,
        writer=one.writer,
        mixed=one.mixed,
        notes=notes,
    )


_MAX_BYTES: Final = 1 << 28
_MOST_CUTS: Final = 64
"""Places that are tried as the end of a document that is cut off, from the last one back."""


class _Document(msgspec.Struct):
    args: Any = None
    nccl_version: Any = None
    config: Any = None
    devices: Any = None
    results: Any = None
    out_of_bounds: Any = None
    average_bus_bandwidth: Any = None
    errors: Any = None


def read_nccl_tests_json(path: Path, *, shown: str) -> tuple[NcclTest, ...]:
    """Return the test of a file, of one that is cut off the rows that are whole.

    Raises TraceError for a file that cannot be read or is no JSON of nccl-tests.
    """
    document, notes = _decoded(read_text(path, shown, _MAX_BYTES), shown)
    if not isinstance(document.results, list):
        raise TraceError("JSON of nccl-tests without results", path=shown)
    arguments = document.args if isinstance(document.args, list) else []
    one = OpenTest(collective=test_name(str(arguments[0])) if arguments else "", headers=1)
    one.version = _version(document.nccl_version)
    one.range = _range(document.config)
    _add_devices(one, document)
    for row in document.results:
        _add_row(one, row)
    one.average = _value(document.average_bus_bandwidth, "bandwidth")
    wrong = _value(document.out_of_bounds, "count")
    one.out_of_bounds = None if wrong is None else int(wrong)
    errors = [text for text in document.errors or [] if isinstance(text, str) and text]
    one.problem = printable(errors[0][:160]) if errors else ""
    return (made_test(one, notes),)


def _decoded(text: bytes, shown: str) -> tuple[_Document, tuple[Note, ...]]:
    try:
        return msgspec.json.decode(text, type=_Document), ()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    end = len(text)
    for _ in range(_MOST_CUTS):
        end = text.rfind(b"}", 0, end)
        if end < 0:
            break
        try:
            document = msgspec.json.decode(text[: end + 1] + b"]}", type=_Document)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        return document, (Note("cut_file", "the file is cut off: its whole rows are read"),)
    raise TraceError("not valid JSON", path=shown)


def _version(code: Any) -> str:
    is_code = isinstance(code, int) and not isinstance(code, bool) and 0 < code < 10**9
    return version_name(code) if is_code else ""


def _range(config: Any) -> tuple[int, int, bool] | None:
    most = _value(config, "maximum_bytes")
    factor, step = _value(config, "step_factor"), _value(config, "step_bytes")
    if most is None or (factor is None and step is None):
        return None
    return (int(most), int(factor or step or 0), factor is not None)


def _add_devices(one: OpenTest, document: _Document) -> None:
    """Devices are inside the configuration, at the top level in other versions."""
    inside = document.config.get("devices") if isinstance(document.config, dict) else None
    listed = document.devices if isinstance(document.devices, list) else inside
    for device in listed if isinstance(listed, list) else []:
        if isinstance(device, dict) and isinstance(device.get("rank"), int):
            host, name = (str(device.get(key, "")) for key in ("hostname", "device_info"))
            one.devices[device["rank"]] = (host, name.strip())


def _add_row(one: OpenTest, row: Any) -> None:
    size = _value(row, "size")
    if size is None or not 0 <= size < MOST:
        one.bad += 1
        return
    sides = [row.get(name) for name in ("out_of_place", "in_place")]
    if not any(isinstance(side, dict) for side in sides):
        one.bad += 1
        return
    wrong = [found for side in sides if (found := _value(side, "nwrong")) is not None]
    cells = [_number(side, name) for side in sides for name in ("time", "alg_bw", "bus_bw")]
    total = sum(wrong) if wrong and 0 <= sum(wrong) < MOST else -1.0
    one.rows.append((size, *cells, total))
    one.dtypes.append(str(row.get("type", "")))


def _value(part: Any, key: str) -> float | None:
    found = _number(part, key)
    return found if found == found and abs(found) != float("inf") else None  # noqa: PLR0124 (NaN)


def _number(part: Any, key: str) -> float:
    """A number; nccl-tests write NaN as text."""
    value = part.get(key) if isinstance(part, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return number("")
    return number(str(value))
