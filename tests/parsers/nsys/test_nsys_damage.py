"""Test databases with damaged pages: other numbers never come without a note."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from nsys_exports import Export

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.nsys.report_reader import read_report_tables
from ccltui.parsers.nsys.sqlite.database import damage_of

KERNELS = 2000
PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    export = Export()
    process = export.process(100)
    process.nccl(0, 1)
    for index in range(KERNELS):
        process.kernel(f"k{index % 5}", 10 * index, 10 * index + 5, launched=10 * index)
    return export.write(tmp_path_factory.mktemp("whole") / "a.sqlite")


def counted(traces: Sequence[RankTrace]) -> list[tuple[int, int, int]]:
    return [
        (len(rows), int(np.sum(rows.start_ns)), int(np.sum(rows.dur_ns)))
        for trace in traces
        for rows in trace.events.values()
    ]


def kernel_leaves(path: Path) -> list[int]:
    """Pages with rows of the table of kernels."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        (root,) = connection.execute(query).fetchone()
    data = path.read_bytes()
    page = data[(root - 1) * PAGE : root * PAGE]
    assert page[0] == 5  # an interior page
    cells = int.from_bytes(page[3:5], "big")
    places = [int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big") for i in range(cells)]
    return [int.from_bytes(page[at : at + 4], "big") for at in places]


def damaged(whole: Path, target: Path, at: int, new: bytes) -> Path:
    data = bytearray(whole.read_bytes())
    assert data[at : at + len(new)] != new
    data[at : at + len(new)] = new
    target.write_bytes(data)
    return target


def test_a_whole_database_has_no_note(whole: Path) -> None:
    (trace,) = read_nsys(whole)

    assert damage_of(whole) is None
    assert not {note.code for note in trace.notes} & {"damaged_database", "missing_rows"}
    assert not trace.truncated


def test_a_page_with_fewer_rows_is_damage(whole: Path, tmp_path: Path) -> None:
    """A count that is too small: SQLite reads such a file without an error, too."""
    leaf = kernel_leaves(whole)[1]
    path = damaged(whole, tmp_path / "a.sqlite", (leaf - 1) * PAGE + 3, (3).to_bytes(2, "big"))

    (trace,) = read_nsys(path, shown="a.sqlite")

    assert len(trace.group("gpu")) < KERNELS
    notes = {note.code: note for note in trace.notes}
    assert "pages of the database are damaged" in notes["damaged_database"].message
    missing = notes["missing_rows"]
    assert missing.count == KERNELS - len(trace.group("gpu"))
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in missing.message
    assert trace.truncated
    assert any("damaged" in note for note in read_report_tables(path).notes)


def test_deleted_rows_are_counted_and_no_damage(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(whole.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid BETWEEN 10 AND 19")

    (trace,) = read_nsys(path)

    assert [(note.code, note.count) for note in trace.notes if "rows of" in note.message] == [
        ("missing_rows", 10)
    ]
    assert not trace.truncated


def test_other_counts_never_come_without_a_note(whole: Path, tmp_path: Path) -> None:
    """Random damage in what says where rows are: headers of pages, pointers, sizes."""
    (good,) = read_nsys(whole)
    expected = counted([good])
    rng = random.Random(5)
    num_other = 0
    for number in range(120):
        page = rng.choice(kernel_leaves(whole))
        at = (page - 1) * PAGE + rng.randrange(0, 48)
        new = bytes([rng.randrange(256)])
        if whole.read_bytes()[at : at + 1] == new:
            continue
        path = damaged(whole, tmp_path / f"{number}.sqlite", at, new)
        try:
            traces = list(read_nsys(path))
        except TraceError:
            continue
        if counted(traces) != expected:
            num_other += 1
            codes = {note.code for trace in traces for note in trace.notes}
            assert codes & {"damaged_database", "missing_rows"}, (number, at)
    assert num_other > 10


def test_the_check_can_be_stopped(whole: Path) -> None:
    with pytest.raises(CancelledError):
        read_nsys(whole, cancelled=lambda: True)


def test_tables_with_missing_rows_are_listed_by_name(whole: Path, tmp_path: Path) -> None:
    """Not in the order in which threads read them."""
    path = tmp_path / "a.sqlite"
    path.write_bytes(whole.read_bytes())
    tables = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL")
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in tables:
            connection.execute(f"DELETE FROM {table} WHERE rowid = 2")

    (trace,) = read_nsys(path)

    told = [note.message.split()[2] for note in trace.notes if note.code == "missing_rows"]
    assert told == sorted(tables)
