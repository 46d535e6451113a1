"""Compare the merge of streamed rows with a sort of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Struct

from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import by_start
from ccltui.parsers.nsys.spilled_events import Merge

Row = tuple[int, int]
"""Start and duration."""


class Table(Struct):
    """Rows in pieces of ``room`` rows; "kind" is one piece, like columns of one value."""

    rows: list[Row]
    number: int
    room: int = 4
    empty_last: bool = False

    @property
    def count(self) -> int:
        return len(self.rows)

    def pieces(self, name: str, base_ns: int) -> Iterator[npt.NDArray[Any]]:
        columns = np.array(self.rows, np.int64).reshape(-1, 2).T
        if name == "kind":
            yield np.broadcast_to(np.array(self.number), self.count)
            return
        place = np.arange(self.count) + 1000 * self.number
        whole = {"start_ns": columns[0] + base_ns, "dur_ns": columns[1], "place": place}[name]
        for begin in range(0, self.count, self.room):
            yield whole[begin : begin + self.room].copy()
        if self.empty_last:
            yield whole[:0]


def merged(merge: Merge, name: str) -> I64:
    return np.concatenate([np.empty(0, np.int64), *(p.copy() for p in merge.pieces(name, 0))])


NEAR = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=14)
TABLES = st.lists(
    st.builds(
        Table,
        st.one_of(NEAR, NEAR.map(sorted)),
        st.just(0),
        st.integers(1, 5),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(TABLES)
def test_merged_rows_equal_a_stable_sort(tables: list[Table]) -> None:
    assume(any(table.rows for table in tables))
    for number, table in enumerate(tables):
        table.number = number
    every = {
        name: np.concatenate([p.copy() for t in tables for p in t.pieces(name, 0)] or [np.empty(0)])
        for name in ("start_ns", "dur_ns", "place", "kind")
    }
    order = by_start(every["start_ns"], every["dur_ns"])
    merge = Merge(tables)
    for name, column in every.items():
        expected = column if order is None else column[order]
        assert merged(merge, name).tolist() == expected.tolist(), name


def test_only_late_rows_and_those_of_smaller_tables_are_inserted() -> None:
    main = Table([(0, 1), (5, 1), (3, 1), (9, 1), (9, 4), (9, 1), (20, 0)], 0)
    copies = Table([(4, 2), (25, 1)], 1)
    merge = Merge([copies, main])

    assert merge.num_inserted == 4  # (3, 1) and (9, 4) come late
    assert merged(merge, "start_ns").tolist() == [0, 3, 4, 5, 9, 9, 9, 20, 25]
    assert merged(merge, "dur_ns").tolist() == [1, 1, 2, 1, 4, 1, 1, 0, 1]
    assert merged(merge, "kind").tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert [int(p[0]) for p in merge.pieces("start_ns", 100)] == [100, 109, 125]


@pytest.mark.parametrize(("late", "worth"), [(5000, True), (9000, False)])
@pytest.mark.parametrize("of_another", [False, True])
def test_many_late_rows_are_sorted_instead(late: int, *, worth: bool, of_another: bool) -> None:
    first, second = ([(time, 1) for time in range(n)] for n in (20_000 - late, late))
    tables = [Table([*first, *second], 0, room=1 << 15)]
    if of_another:
        tables = [Table(first, 0, room=1 << 15), Table(second, 1)]

    assert Merge(tables).is_efficient is worth
