"""Test that spilled columns in memory, on disk or both are the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccltui.parsers.nsys.sqlite.table_rows import Scratch, Spill

Row = tuple[int, int, int]
"""Owner, a time, a small number."""
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-(1 << 61), 1 << 61), st.integers(-1, 1 << 30)),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    blocks=st.lists(ROWS, max_size=4),
    wanted=st.sets(st.integers(0, 3)),
    memory=st.sampled_from([0, 40, 1 << 20]),
    room=st.integers(1, 9),
)
def test_columns_are_the_rows_of_their_owners_in_order(
    tmp_path: Path, blocks: list[list[Row]], wanted: set[int], memory: int, room: int
) -> None:
    spill = filled(Scratch(tmp_path, memory), blocks)
    for place, (name, dtype) in enumerate({"time": np.int64, "small": np.int32}.items(), 1):
        expected = [
            row[place] for block in blocks for row in sorted(block, key=owner) if row[0] in wanted
        ]
        column = spill.column(name, sorted(wanted))
        assert column.dtype == dtype
        assert column.tolist() == expected
        pieces = [piece.tolist() for piece in spill.pieces(name, sorted(wanted), room)]
        assert [value for piece in pieces for value in piece] == expected
        assert all(len(piece) == room for piece in pieces[:-1])


def owner(row: Row) -> int:
    return row[0]


def filled(scratch: Scratch, blocks: Sequence[Sequence[Row]]) -> Spill:
    spill = Spill(scratch, {"time": np.int64, "small": np.int32})
    for block in blocks:
        columns = np.array(block, np.int64).reshape(-1, 3).T
        spill.append(
            columns[0].astype(np.int32), {"time": columns[1], "small": columns[2].astype(np.int32)}
        )
    return spill


def test_columns_that_fit_into_memory_are_not_written(tmp_path: Path) -> None:
    """Test also without a directory to write to."""
    spill = filled(Scratch(tmp_path / "absent"), [[(0, 1, 2), (1, 3, 4)]])
    assert spill.column("time", [1]).tolist() == [3]
    with pytest.raises(FileNotFoundError):
        filled(Scratch(tmp_path / "absent", room=0), [[(0, 1, 2)]])


def test_tables_share_the_memory_of_their_file(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, room=10)
    filled(scratch, [[(0, 5, 5), (0, 6, 6)]])
    assert scratch.room == 6  # two columns of two rows, a byte each
    assert not scratch.reserve(7)
    assert scratch.reserve(6)
    assert scratch.room == 0


def test_nothing_is_left_on_disk(tmp_path: Path) -> None:
    spill = filled(Scratch(tmp_path, room=0), [[(0, 1, 2)]])
    assert list(tmp_path.iterdir()) == []
    assert spill.column("small", [0]).tolist() == [2]
