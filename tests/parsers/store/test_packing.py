"""Packed columns: the numbers that went in, in fewer bytes, and nothing of a file that is off."""

from __future__ import annotations

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
    Packed,
    StoredEvents,
    SummedFile,
    narrow,
    widen,
    write_packed,
)

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
