"""Files of columns: how they are packed, cut and mapped."""

from __future__ import annotations

import errno
import gc
import importlib.util
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from nsys_exports import Export

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import DamagedColumnsError
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.store import column_store, stored_columns
from ccltui.parsers.store.column_store import Store, release
from ccltui.parsers.store.store_entry import COLUMNS_NAME
from ccltui.parsers.store.stored_columns import (
    PAGE,
    Packed,
    StoredEvents,
    SummedFile,
    map_file,
    mapping_of,
    narrow,
    widen,
    write_packed,
)

BODY = bytes(range(256)) * 64


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """An open file of `BODY`, at the next page once more."""
    path = tmp_path / "file"
    path.write_bytes(BODY.ljust(-(-len(BODY) // PAGE) * PAGE, b"\0") + BODY)
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


def num_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def mapped_lines(path: Path) -> int:
    return sum(str(path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_the_bytes_are_there_and_cannot_be_written(descriptor: int) -> None:
    array = map_file(descriptor, len(BODY))

    assert array.tobytes() == BODY
    assert (array.dtype, array.flags.writeable) == (np.dtype(np.uint8), False)


def test_no_descriptor_stays_open(descriptor: int) -> None:
    before = num_open()

    arrays = [map_file(descriptor, len(BODY)) for _ in range(100)]

    assert num_open() == before
    assert all(array[-1] == 255 for array in arrays)


def test_bytes_stay_when_the_file_has_gone_and_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    path.write_bytes(BODY)
    with path.open("rb") as file:
        array = map_file(file.fileno(), len(BODY))
    path.unlink()

    assert array.tobytes() == BODY


def test_a_mapping_lives_as_long_as_a_view_of_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BODY)
    with path.open("rb") as file:
        view = np.frombuffer(map_file(file.fileno(), len(BODY)), np.int64, 8, 64)
    gc.collect()

    assert view.tobytes() == BODY[64:128]
    assert mapped_lines(path) == 1

    del view
    gc.collect()
    assert mapped_lines(path) == 0


def test_a_part_of_a_file_begins_at_a_page(descriptor: int) -> None:
    begin = -(-len(BODY) // PAGE) * PAGE

    assert map_file(descriptor, len(BODY), begin).tobytes() == BODY
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        map_file(descriptor, 1, 1)


def test_an_empty_file_needs_no_mapping(descriptor: int) -> None:
    assert len(map_file(descriptor, 0)) == 0


def test_what_cannot_be_mapped_says_why() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENODEV)) as caught:
            map_file(reading, 1)
    finally:
        os.close(reading)
        os.close(writing)
    assert caught.value.errno == errno.ENODEV


def test_pages_that_were_given_back_are_read_again(descriptor: int) -> None:
    array = map_file(descriptor, len(BODY))
    mapping = mapping_of(np.frombuffer(array, np.int32))
    assert mapping is not None

    mapping.madvise(mmap.MADV_DONTNEED)

    assert array.tobytes() == BODY
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        mapping.madvise(12345)


def test_an_array_in_memory_is_mapped_from_no_file() -> None:
    assert mapping_of(np.zeros(3)) is None
    assert mapping_of(np.frombuffer(mmap.mmap(-1, 8), np.uint8)) is None


INTEGERS = st.sampled_from([np.int8, np.int32, np.int64])


@given(INTEGERS.flatmap(lambda dtype: hnp.arrays(dtype, st.integers(1, 40))))
def test_numbers_come_back_as_they_were(column: npt.NDArray[np.int64]) -> None:
    rows, base = narrow(column)
    back = np.empty_like(column)
    widen(rows, base, back)
    np.testing.assert_array_equal(back, column)
    assert rows.itemsize <= column.itemsize


@pytest.mark.parametrize(
    ("low", "high", "size"),
    [
        (7, 7, 1),
        (-1, 254, 1),
        (-1, 255, 2),
        (10**18, 10**18 + 65_535, 2),
        (0, 65_536, 4),
        (-(1 << 31), (1 << 31) - 1, 4),
        (0, 1 << 32, 8),
        (-(1 << 63), (1 << 63) - 1, 8),
    ],
)
def test_a_number_takes_what_its_distance_from_the_least_needs(
    low: int, high: int, size: int
) -> None:
    rows, _ = narrow(np.array([low, high], np.int64))
    assert rows.itemsize == size


def packed(pieces: list[npt.NDArray[np.int64]]) -> tuple[Packed, BytesIO]:
    file = BytesIO()
    file.write(b"before")
    num_pieces, length, dtype = write_packed(SummedFile(file), pieces)
    data = np.frombuffer(file.getvalue(), np.uint8)
    return Packed.at(data, dtype, len(data), num_pieces, length), file


def test_pieces_are_cut_and_read_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_columns, "PACKED_ROWS", 3)
    pieces = [np.arange(7) * 1000 - 5, np.array([1 << 40]), np.array([-1, -1])]
    column, _ = packed(pieces)
    np.testing.assert_array_equal(column.column(), np.concatenate(pieces))
    assert [int(rows) for rows in column.index[:, 0]] == [3, 3, 1, 1, 2]
    assert column.column().dtype == np.int64
    assert not column.column().flags.writeable


@pytest.mark.parametrize(
    ("column", "value"),
    [(0, 0), (0, 1 << 40), (1, 3), (1, 0), (3, -8), (3, 1 << 40)],
)
def test_an_index_that_does_not_fit_is_refused(column: int, value: int) -> None:
    _, file = packed([np.arange(100)])
    data = np.frombuffer(file.getvalue(), np.uint8).copy()
    offset = len(data) - 32
    data[offset:].view(np.int64)[column] = value
    with pytest.raises(ValueError, match="does not fit"):
        Packed.at(data, np.dtype("<i8"), len(data), 1, 100)
    with pytest.raises(ValueError, match=r"fit|buffer"):
        Packed.at(data[: offset + 8], np.dtype("<i8"), len(data), 1, 100)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RankTrace, RankTrace]:
    """A rank as it was read and as it comes out of a store that packs."""
    for module in (stored_columns, column_store):
        monkeypatch.setattr(module, "PACKED_ROWS", 4)
    export = Export()
    rank = export.process(100)
    for index in range(30):
        rank.kernel("gemm" if index % 3 else "add", 1000 * index, 1000 * index + 7, device=0)
    export.write(tmp_path / "node.sqlite")
    (trace,) = read_nsys(tmp_path / "node.sqlite")
    folder = Store(tmp_path / "store")
    assert folder.save("key", trace)
    loaded = folder.load("key")
    assert loaded is not None
    return trace, loaded


def test_a_stored_export_has_its_columns_packed(saved: tuple[RankTrace, RankTrace]) -> None:
    trace, loaded = saved
    gpu = loaded.group("gpu")
    assert isinstance(gpu, StoredEvents)
    assert loaded.place is not None
    assert {c.name for c in loaded.place.columns if c.packed} >= {"gpu/start_ns", "gpu/name"}
    assert len(gpu) == 30
    for name in ("start_ns", "dur_ns", "name", "category", "track", "correlation", "args"):
        expected, found = getattr(trace.group("gpu"), name), getattr(gpu, name)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert gpu.start_ns is gpu.start_ns
    assert gpu.first_ns == trace.first_ns == loaded.first_ns
    np.testing.assert_array_equal(
        gpu.take(np.array([2, 5])).start_ns, trace.group("gpu").start_ns[[2, 5]]
    )
    with pytest.raises(AttributeError):
        gpu.absent  # noqa: B018


def test_released_columns_are_unpacked_anew(saved: tuple[RankTrace, RankTrace]) -> None:
    _, loaded = saved
    gpu = loaded.group("gpu")
    before = gpu.start_ns
    release(loaded)
    after = gpu.start_ns
    assert after is not before
    np.testing.assert_array_equal(after, before)


def test_a_first_time_needs_no_column(saved: tuple[RankTrace, RankTrace]) -> None:
    _, loaded = saved
    assert loaded.first_ns is not None
    assert "start_ns" not in vars_of(loaded.group("gpu"))


def vars_of(events: object) -> set[str]:
    return {name for name in ("start_ns", "dur_ns") if _is_set(events, name)}


def _is_set(events: object, name: str) -> bool:
    try:
        object.__getattribute__(events, name)
    except AttributeError:
        return False
    return True


def test_a_damaged_index_is_found_at_the_first_use(
    saved: tuple[RankTrace, RankTrace], tmp_path: Path
) -> None:
    path = tmp_path / "store" / "key" / COLUMNS_NAME
    data = bytearray(path.read_bytes())
    path.write_bytes(data.replace((4).to_bytes(8, "little"), (5).to_bytes(8, "little")))
    loaded = Store(tmp_path / "store").load("key")
    assert loaded is not None
    with pytest.raises(DamagedColumnsError):
        loaded.group("gpu").start_ns  # noqa: B018


_READ_AFTER_CUT = """\
import os, sys
from ccltui.parsers.store.stored_columns import map_file
descriptor = os.open(sys.argv[1], os.O_RDWR)
column = map_file(descriptor, 1 << 20)
assert int(column[-1]) == 1
os.ftruncate(descriptor, int(sys.argv[2]))
print(column.sum())
"""
needs_compiled_code = pytest.mark.skipif(
    importlib.util.find_spec("ccltui.parsers.store._cut_files") is None,
    reason="the handler is not compiled here",
)


def read_after_cut(tmp_path: Path, size: int) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "columns.bin"
    path.write_bytes(b"\1" * (1 << 20))
    command = [sys.executable, "-c", _READ_AFTER_CUT, str(path), str(size)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)


@needs_compiled_code
@pytest.mark.parametrize("size", [0, 1 << 19])
def test_a_cut_file_is_no_bus_error_and_gives_no_number(tmp_path: Path, size: int) -> None:
    done = read_after_cut(tmp_path, size)

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "ccltui: a file of the store was cut while it was in use; run the command again\n"
    )


def test_a_file_that_keeps_its_size_is_read(tmp_path: Path) -> None:
    done = read_after_cut(tmp_path, 1 << 20)

    assert (done.returncode, done.stdout) == (0, f"{1 << 20}\n")


@needs_compiled_code
def test_a_bus_error_of_another_kind_ends_the_process_as_usual() -> None:
    code = (
        "import os, signal\n"
        "from ccltui.parsers.store._cut_files import end_in_order\n"
        "end_in_order()\n"
        "os.kill(os.getpid(), signal.SIGBUS)\n"
        "os.kill(os.getpid(), signal.SIGBUS)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=30)

    assert done.returncode == -7
