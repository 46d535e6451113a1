"""Damaged and hostile exports of nsys."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from nsys_exports import Export

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.nsys.report_tables import read_report_tables
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


def refused(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        read_nsys(path, shown="a.sqlite")
    line = str(caught.value)
    assert line.startswith("a.sqlite: ")
    assert "\n" not in line
    return line


def script(path: Path, text: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text)
    return path


def good(path: Path) -> Path:
    export = Export()
    for pid in (100, 101):
        process = export.process(pid)
        process.nccl(pid - 100, 2)
        for index in range(60):
            process.kernel(f"k{index % 5}", 10 * index, 10 * index + 5, launched=10 * index)
            process.collective("ncclAllReduce", 10 * index, 10 * index + 4, size=8)
    return export.write(path)


def test_absent_empty_and_other_files(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "absent")
    (tmp_path / "text").write_text("no database at all" * 100)
    assert "file is not a database" in refused(tmp_path / "text")
    other = script(tmp_path / "other", "CREATE TABLE users (id INTEGER)")
    assert refused(other).endswith("an SQLite file without the tables of an nsys export")


def test_a_view_is_no_table(tmp_path: Path) -> None:
    endless = """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER);
        CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS
            WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start FROM n) SELECT start FROM n;
    """
    (trace,) = read_nsys(script(tmp_path / "a.sqlite", endless))

    assert len(trace.group("gpu")) == 0


@pytest.mark.parametrize("content", ["'text'", "x'00ff'", "1.5", "'9' || hex(zeroblob(99))"])
def test_columns_of_other_types(tmp_path: Path, content: str) -> None:
    path = good(tmp_path / "a.sqlite")
    script(path, f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = {content}")
    with suppress(TraceError):
        read_nsys(path)
    script(path, f"UPDATE NVTX_EVENTS SET text = {content}, jsonText = {content}")
    with suppress(TraceError):
        read_nsys(path)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**62])
def test_extreme_integers(tmp_path: Path, value: int) -> None:
    path = good(tmp_path / "a.sqlite")
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        with closing(sqlite3.connect(path)) as connection, connection:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            assignments = ", ".join(f"{name} = ?" for name in columns)
            connection.execute(
                f"UPDATE {table} SET {assignments} WHERE rowid = 3", [value] * len(columns)
            )
    with suppress(TraceError):
        read_nsys(path)


def test_every_cut_and_noise_gives_columns_or_one_line(tmp_path: Path) -> None:
    whole = good(tmp_path / "good.sqlite").read_bytes()
    noise = random.Random(7)
    path = tmp_path / "a.sqlite"
    for attempt in range(60):
        data = bytearray(whole)
        if attempt % 2:
            del data[noise.randrange(100, len(data)) :]
        for _ in range(attempt):
            data[noise.randrange(100, len(data))] = noise.randrange(256)
        path.write_bytes(data)
        with suppress(TraceError):
            read_nsys(path)


CELLS = ["NULL", "'text'", "1.5", "x'00ff'"]


@pytest.mark.parametrize("content", CELLS)
@pytest.mark.parametrize("column", ["start", '"end"', "globalTid", "domainId", "textId", "text"])
def test_reports_of_ranges_with_cells_of_other_types(
    tmp_path: Path, column: str, content: str
) -> None:
    path = with_domain(tmp_path / "a.sqlite")
    script(path, f"UPDATE NVTX_EVENTS SET {column} = {content}")

    read_report_tables(path, shown="a.sqlite")


@pytest.mark.parametrize("content", CELLS)
@pytest.mark.parametrize("column", ["id", "name"])
def test_reports_with_devices_of_other_types(tmp_path: Path, column: str, content: str) -> None:
    path = with_domain(tmp_path / "a.sqlite")
    script(
        path,
        f"""CREATE TABLE gpus AS SELECT * FROM TARGET_INFO_GPU; DROP TABLE TARGET_INFO_GPU;
        ALTER TABLE gpus RENAME TO TARGET_INFO_GPU;
        UPDATE TARGET_INFO_GPU SET {column} = {content}""",
    )

    read_report_tables(path, shown="a.sqlite")


def test_reports_of_ranges_without_a_column_of_times(tmp_path: Path) -> None:
    path = with_domain(tmp_path / "a.sqlite")
    script(path, 'ALTER TABLE NVTX_EVENTS DROP COLUMN "end"')

    ranges = read_report_tables(path, shown="a.sqlite").ranges

    assert ranges is not None
    assert ranges.end_ns.tolist() == [ranges.start_ns.max()] * len(ranges.end_ns)


def with_domain(path: Path) -> Path:
    export = Export()
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA A100")
    process = export.process(100)
    process.domain(3, "NCCL")
    process.kernel("k", 10, 20)
    process.range("step 1", 5, 99, registered=True)
    process.range("step 2", 105, 199)
    return export.write(path)


@pytest.mark.parametrize("compiled", ["1", "0"])
def test_rows_that_are_no_ranges_are_no_ranges_with_either_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: str
) -> None:
    monkeypatch.setenv("CCLTUI_ACCEL", compiled)
    path = with_domain(tmp_path / "a.sqlite")
    script(path, "UPDATE NVTX_EVENTS SET eventType = 75")

    found = read_report_tables(path, shown="a.sqlite")

    assert found.ranges is None
    assert "step 1" not in found.names
