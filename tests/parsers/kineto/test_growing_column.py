"""Test growing columns, also on a system that cannot move a mapping."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from ccltui.parsers.kineto.event_rows import GrowingColumn
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.column_store import release


class FixedMapping(mmap.mmap):
    """A mapping on a system that cannot move one."""

    def resize(self, newsize: int) -> None:
        del newsize
        raise SystemError("mmap: resizing not available--no mremap()")


@pytest.mark.parametrize("mapping", [mmap.mmap, FixedMapping])
def test_rows_are_unchanged_when_a_column_grows(
    monkeypatch: pytest.MonkeyPatch, mapping: type[mmap.mmap]
) -> None:
    monkeypatch.setattr("ccltui.parsers.kineto.event_rows.mmap.mmap", mapping)
    column = GrowingColumn(np.int32, 3)
    column.rows(0, 3)[:] = [1, 2, 3]

    for rows in (3, 5, 100_000):
        column.make_room(rows)
    column.rows(3, 5)[:] = [4, 5]
    column.rows(99_999, 100_000)[:] = 9

    assert column.rows(0, 5).tolist() == [1, 2, 3, 4, 5]
    assert column.rows(99_999, 100_000).tolist() == [9]
    assert column.rows(0, 5).flags.writeable


@pytest.mark.parametrize("events", [1, 255, 256, 257, 5000])
def test_columns_of_one_value_and_of_many_have_all_rows(
    tmp_path: Path, decoder: str, events: int
) -> None:
    assert decoder
    body = ",".join(
        f'{{"ph":"X","cat":"cuda_runtime","name":"{"b" if n == events - 1 else "a"}","pid":1,'
        f'"tid":2,"ts":{n},"dur":1,"args":{{"correlation":{n + 1}}}}}'
        for n in range(events)
    )
    path = tmp_path / "a.json"
    path.write_text(f"[{body}]")

    rows = read_kineto(path).group("runtime")

    assert rows.start_ns.tolist() == [1000 * n for n in range(events)]
    assert rows.correlation.tolist() == list(range(1, events + 1))
    assert len(set(rows.name[:-1].tolist())) == min(events - 1, 1)
    assert rows.name[-1] not in rows.name[:-1]
    for same, value in (("dur_ns", 1000), ("track", 0), ("bytes", -1), ("args", -1)):
        column = getattr(rows, same)
        assert column.tolist() == [value] * events
        assert column.strides == (0,)  # no memory for what all say
    assert {column: getattr(rows, column).dtype for column, _ in rows.COLUMNS} == {
        column: np.dtype(dtype) for column, dtype in rows.COLUMNS
    }


def test_release_keeps_columns_that_are_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    body = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{n},"dur":1}}'
        for n in range(3000)
    )
    path.write_text(f"[{body}]")
    trace = read_kineto(path)

    release(trace)

    assert trace.group("gpu").start_ns.tolist() == [1000 * n for n in range(3000)]
