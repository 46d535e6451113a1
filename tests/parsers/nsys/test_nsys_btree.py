"""Compare rows read from pages with rows from SQLite, also where SQLite continues a scan."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.sqlite.database import Database
from ccltui.parsers.nsys.sqlite.table_scans import available, new_numbers, new_texts

pytestmark = pytest.mark.skipif(not available(), reason="the compiled reader was not built")

Cell = int | float | str | bytes | None
WANTED = ["start", "end", None, "absent", "kind"]


def table(
    path: Path,
    rows: Sequence[tuple[Cell, ...]],
    *,
    columns: str = "start INTEGER, end INTEGER, kind INTEGER, text TEXT, other TEXT",
    pragmas: Sequence[str] = (),
    after: Sequence[str] = (),
    tail: str = "",
) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        for pragma in pragmas:
            database.execute(f"PRAGMA {pragma}")
        database.execute(f"CREATE TABLE events ({columns}) {tail}")
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            database.executemany(f"INSERT INTO events VALUES ({marks})", rows)
        for statement in after:
            database.execute(statement)
    return path


def read(
    path: Path, *, texts: bool = False, only: tuple[str, tuple[int, ...]] | None = None
) -> list[tuple[object, ...]]:
    """Return every row, with texts in place of their numbers."""
    found = {"text": new_texts()} if texts else {}
    columns = [*WANTED, "text"] if texts else WANTED
    with closing(Database(path, "file")) as database:
        blocks = list(database.numbers("events", columns, found, only))
    rows = [row for block in blocks for row in zip(*(c.tolist() for c in block), strict=True)]
    if not texts:
        return rows
    known = [text for text, _ in found["text"].values()]
    return [(*row[:-1], None if row[-1] < 0 else known[row[-1]]) for row in rows]


def both(path: Path, monkeypatch: pytest.MonkeyPatch, **how: object) -> list[tuple[object, ...]]:
    """Check that pages and SQLite give the same rows; return them."""
    rows = read(path, **how)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setenv("CCLTUI_ACCEL", "0")
        assert read(path, **how) == rows  # type: ignore[arg-type]
    return rows


def is_read_from_pages(path: Path) -> bool:
    with closing(Database(path, "file")) as database:
        pages = database._scan("events", WANTED, {}, None)
        return pages is not None and sum(len(block[0]) for block in pages) >= 0 and pages.complete


def rows_of(count: int, seed: int = 0) -> list[tuple[Cell, ...]]:
    make = random.Random(seed)
    widths = [0, 1, 127, 128, -1, -129, 1 << 15, -(1 << 23), 1 << 31, -(1 << 40), (1 << 63) - 1]
    return [
        (
            make.choice(widths),
            None if make.random() < 0.1 else make.randrange(-(1 << 62), 1 << 62),
            make.randrange(4),
            make.choice([None, "", "step", "é" * make.randrange(40)]),
            "x" * make.randrange(30),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("page_bytes", [512, 1024, 4096, 65536])
def test_every_width_of_number_and_size_of_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_bytes: int
) -> None:
    path = table(tmp_path / "a.db", rows_of(3000), pragmas=[f"page_size = {page_bytes}"])

    assert is_read_from_pages(path)
    rows = both(path, monkeypatch, texts=True)
    expected = [
        (s, -1 if e is None else e, -1, -1, k, None if t is None else str(t).encode())
        for s, e, k, t, _ in rows_of(3000)
    ]
    assert rows == expected


def test_rows_that_continue_on_other_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[Cell, ...]] = [
        (n, n + 1, 1, "long " * (n * 150), "y" * (n * 977)) for n in range(40)
    ]
    path = table(tmp_path / "a.db", rows, pragmas=["page_size = 1024", "auto_vacuum = FULL"])

    assert is_read_from_pages(path)
    assert [row[-1] for row in both(path, monkeypatch, texts=True)] == [
        str(row[3]).encode() for row in rows
    ]


def test_deleted_rows_and_chosen_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = ["DELETE FROM events WHERE rowid % 3 = 0", "DELETE FROM events WHERE rowid > 900"]
    path = table(tmp_path / "a.db", rows_of(1000), after=statements)

    rows = both(path, monkeypatch, only=("kind", (1, 3)))

    kept = [row for n, row in enumerate(rows_of(1000), 1) if n % 3 and n <= 900]
    assert [row[4] for row in rows] == [row[2] for row in kept if row[2] in (1, 3)]
    assert both(path, monkeypatch, only=("nothing", (1,))) == both(path, monkeypatch)


@pytest.mark.parametrize(
    ("columns", "tail", "after"),
    [
        ("start INTEGER PRIMARY KEY, end INTEGER, kind INTEGER, text TEXT, other TEXT", "", ()),
        ("start, end, kind, text, other, PRIMARY KEY (end, other, text)", "WITHOUT ROWID", ()),
        ("start INTEGER, end INTEGER, text TEXT, other TEXT, kind AS (start + 1)", "", ()),
    ],
)
def test_other_kinds_of_tables_are_read_by_sqlite(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
    tail: str,
    after: Sequence[str],
) -> None:
    rows: list[tuple[Cell, ...]] = [(n, n * 2, 5, f"t{n}", "o") for n in range(1, 50)]
    if "AS (" in columns:
        rows = [(*row[:2], *row[3:]) for row in rows]
    path = table(tmp_path / "a.db", rows, columns=columns, tail=tail, after=after)

    assert not is_read_from_pages(path)
    if not tail:  # SQLite itself has no row numbers there
        assert [row[0] for row in both(path, monkeypatch)] == list(range(1, 50))


def test_columns_that_were_added_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ["ALTER TABLE events ADD COLUMN kind INTEGER"]
    stated = ["ALTER TABLE events ADD COLUMN kind INTEGER DEFAULT 7"]
    rows: list[tuple[Cell, ...]] = [(1, 2, "t", "o")]
    columns = "start INTEGER, end INTEGER, text TEXT, other TEXT"
    first = table(tmp_path / "a.db", rows, columns=columns, after=plain)
    second = table(tmp_path / "b.db", rows, columns=columns, after=stated)

    assert both(first, monkeypatch) == [(1, 2, -1, -1, -1)]
    assert both(second, monkeypatch) == [(1, 2, -1, -1, 7)]
    assert (is_read_from_pages(first), is_read_from_pages(second)) == (True, False)


@pytest.mark.parametrize("odd", [2.5, "12", b"12"])
def test_sqlite_continues_where_a_cell_is_no_integer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: Cell
) -> None:
    rows: list[tuple[Cell, ...]] = [(n, odd if n == 30 else n, 1, "t", "") for n in range(60)]
    path = table(tmp_path / "a.db", rows, columns="start, end, kind, text, other")

    ends = [row[1] for row in both(path, monkeypatch)]

    assert ends == [*range(30), 12 if odd != 2.5 else 2, *range(31, 60)]


def test_a_file_of_another_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path / "a.db", rows_of(20), pragmas=["encoding = 'UTF-16le'"])

    assert not is_read_from_pages(path)
    assert len(both(path, monkeypatch, texts=True)) == 20


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return table(tmp_path / "whole.db", rows_of(800), pragmas=["page_size = 512"])


def test_damaged_pages_give_rows_or_an_error(damaged: Path, tmp_path: Path) -> None:
    whole, make = damaged.read_bytes(), random.Random(1)
    path, read_at_all = tmp_path / "damaged.db", 0
    for _ in range(300):
        data = bytearray(whole[: make.randrange(600, len(whole) + 1)])
        for _ in range(make.randrange(1, 6)):
            data[make.randrange(100, len(data))] = make.randrange(256)
        path.write_bytes(data)
        with contextlib.suppress(TraceError):
            read_at_all += bool(read(path, texts=True))
    assert 0 < read_at_all < 300


def test_scan_of_a_cyclic_tree_ends(damaged: Path) -> None:
    data = bytearray(damaged.read_bytes())
    with closing(sqlite3.connect(damaged)) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master").fetchone()
    at = (root - 1) * 512
    assert data[at] == 5  # an interior page
    cells = int.from_bytes(data[at + 3 : at + 5], "big")
    for cell in range(cells):
        place = at + int.from_bytes(data[at + 12 + 2 * cell : at + 14 + 2 * cell], "big")
        data[place : place + 4] = root.to_bytes(4, "big")
    damaged.write_bytes(data)

    with pytest.raises(TraceError, match="malformed"):
        read(damaged)


def test_texts_are_cut_at_marks_as_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [b"a, seq = 1, op_id = 2", b"a", b"a, op_id = 3", b"", b", seq = ", b"a, op_id ="]
    marks = (b", op_id = ", b", seq = ")
    found = []
    for accelerated in ("1", "0"):
        monkeypatch.setenv("CCLTUI_ACCEL", accelerated)
        kept = new_texts(marks)
        found.append(([kept.add(text) for text in texts], kept.values()))

    assert found[0] == found[1]
    assert found[0][0] == [0, 1, 0, 2, 3, 4]
    assert found[0][1] == [
        (b"a", True),
        (b"a", False),
        (b"", False),
        (b"", True),
        (b"a, op_id =", False),
    ]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 5), max_size=400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_numbers_follow_the_order_of_appearance(values: list[int]) -> None:
    numbers = new_numbers()
    halves = [
        np.array(part, np.int64)
        for part in (values[: len(values) // 2], values[len(values) // 2 :])
    ]

    found = [number for half in halves for number in numbers.of(half).tolist()]

    order = list(dict.fromkeys(values))
    assert found == [order.index(value) for value in values]
    assert numbers.values().tolist() == order
