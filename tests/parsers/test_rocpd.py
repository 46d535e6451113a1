"""Databases of rocprofv3 (rocpd) as ranks: rows with known answers, and hostile files."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rocpd_database import BASE, REDUCE, UUID, Recording, steps, write

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import CancelledError, TraceError
from ccltui.parsers.job import open_job
from ccltui.parsers.rocm.rocpd_reader import read_rocpd


def read(path: Path) -> list[RankTrace]:
    return list(read_rocpd(path, shown=path.name))


def whole() -> Recording:
    """Return a recording with a row of everything that is read, and of what is not."""
    one = Recording()
    steps(one)
    one.copy("HOST_TO_DEVICE", BASE + 710_000, BASE + 800_000, 1, 2, 4096)
    one.copy("DEVICE_TO_HOST", BASE + 810_000, BASE + 820_000, 2, 1, 64)
    one.copy("HOST_TO_HOST", BASE + 830_000, BASE + 840_000, 1, 1, 64)
    for step in range(5):
        begin = BASE + step * 5_000_000
        one.region("MARKER_CORE_RANGE_API", "roctxThreadRangeA", begin, begin + 4_000_000,
                   message=f"step {step}")  # fmt: skip
        one.region("RCCL_API", "ncclAllReduce", begin + 990_000, begin + 999_000,
                   args=(("count", "1024"), ("datatype", "7"), ("comm", "0x7f")))  # fmt: skip
    one.region("HSA_CORE_API", "hsa_signal_load", BASE, BASE + 10)
    return one


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("suffix", [UUID, ""])
@pytest.mark.parametrize("views", [True, False])
def test_what_is_in_a_database(tmp_path: Path, version: int, suffix: str, views: bool) -> None:
    path = write(tmp_path / "5000_results.db", whole(), version=version, suffix=suffix, views=views)

    (rank,) = read(path)

    gpu = rank.group("gpu")
    names = [rank.text(name) for name in gpu.name]
    assert len(gpu) == 17
    assert names[:3] == ["Cijk_Ailk_MT128", "Cijk_Ailk_MT64", "[CUDA memcpy Host-to-Device]"]
    assert names.count(REDUCE) == 5
    assert gpu.dur_ns[:3].tolist() == [350_000, 300_000, 90_000]
    assert gpu.start_ns[0] == BASE
    assert gpu.bytes[2:4].tolist() == [4096, 64]
    assert [(track.device, track.stream) for track in rank.tracks if track.kind == "stream"] == [
        (0, 2)
    ]
    assert [device.name for device in rank.devices] == ["AMD Instinct MI300X"]
    calls = rank.group("runtime")
    assert {rank.text(name) for name in calls.name} == {"hipLaunchKernel"}
    kernels = [row for row, name in enumerate(names) if not name.startswith("[")]
    assert sorted(gpu.correlation[kernels].tolist()) == sorted(calls.correlation.tolist())
    marks = [rank.text(name) for name in rank.group("annotations").name]
    assert marks.count("NCCL:ncclAllReduce") == 5
    assert {f"step {step}" for step in range(5)} <= set(marks)
    assert rank.host == "node-a"


def test_a_database_without_work(tmp_path: Path) -> None:
    path = write(tmp_path / "1_results.db", Recording())

    (rank,) = read(path)

    assert rank.counts == {}


def test_how_a_directory_lists_it(tmp_path: Path) -> None:
    write(tmp_path / "5000_results.db", whole())

    (file,) = discover(tmp_path).files

    assert (file.kind, file.problem) == ("rocpd", None)


def test_each_device_of_a_process_is_a_rank(tmp_path: Path) -> None:
    one = Recording()
    steps(one, agent=2)
    steps(one, agent=3)

    ranks = read(write(tmp_path / "1_results.db", one))

    assert [len(rank.group("gpu")) for rank in ranks] == [15, 15]
    assert [rank.source.part_name for rank in ranks] == ["GPU 0", "GPU 1"]


def test_several_recordings_in_a_file(tmp_path: Path) -> None:
    first, second = Recording(5000), Recording(5000, host="node-b")
    steps(first)
    steps(second, 7)

    ranks = read(write(tmp_path / "merged.db", first, second))

    assert sorted(len(rank.group("gpu")) for rank in ranks) == [15, 21]
    assert {rank.text(name) for rank in ranks for name in rank.group("gpu").name} == {
        "Cijk_Ailk_MT128",
        "Cijk_Ailk_MT64",
        REDUCE,
    }
    assert {rank.host for rank in ranks} == {""}


def test_the_rank_in_the_environment(tmp_path: Path) -> None:
    environment = json.dumps({"RANK": "3", "WORLD_SIZE": "8", "SECRET": "hidden", "PMI_RANK": "x"})
    one = Recording(environment=environment)
    steps(one)

    (rank,) = read(write(tmp_path / "1_results.db", one))

    assert (rank.rank, rank.world_size, rank.rank_source) == (3, 8, "environment")
    assert "hidden" not in repr(rank.strings)


@pytest.mark.parametrize("late", [0, 1])
def test_the_process_that_comes_late(tmp_path: Path, late: int) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    for place, pid in enumerate((5000, 5001)):
        one = Recording(pid)
        steps(one, 10, late_ns=500_000 if place == late else 0)
        write(folder / f"{pid}_results.db", one)

    job = open_job(tmp_path, cache_dir=None)
    result = find("straggler_lag").run(View(job))

    assert [(trace.rank, trace.source.path) for trace in job.ranks] == [
        (0, "node/5000_results.db"),
        (1, "node/5001_results.db"),
    ]
    assert {trace.rank_source for trace in job.ranks} == {"order of processes"}
    assert result.value == pytest.approx(500)
    assert result.details["num_collectives"] == 10
    assert result.details["worst_straggler"] == late


@pytest.mark.parametrize(
    ("datatype", "size"),
    [("ncclFloat32", 4096), ("7", 4096), ("ncclBfloat16", 2048), ("9", 2048), ("odd", -1)],
)
def test_the_size_of_a_call_in_bytes(tmp_path: Path, datatype: str, size: int) -> None:
    one = Recording()
    begin = BASE + 1_000_000
    one.kernel(REDUCE, begin, begin + 500_000, stack=9)
    one.region("HIP_RUNTIME_API_EXT", "hipLaunchKernel", begin - 8000, begin - 7000, stack=9)
    one.region("RCCL_API", "ncclAllReduce", begin - 9000, begin - 2000,
               args=(("count", "1024"), ("datatype", datatype)))  # fmt: skip

    (rank,) = read(write(tmp_path / "1_results.db", one))

    gpu = rank.group("gpu")
    assert rank.collective_args.in_elems[gpu.args[0]] == size


def test_rows_that_cannot_be_are_counted(tmp_path: Path) -> None:
    one = whole()
    rows = one.rows["kernel_dispatch"]
    rows[0]["end"] = 5
    rows[1]["start"] = 0
    rows[2]["agent_id"] = 99
    rows[3]["start"] = "text"
    rows[4]["kernel_id"] = 1 << 50
    rows[5]["event_id"] = -7
    rows[6]["start"] = rows[6]["end"] = 1 << 62

    (rank,) = read(write(tmp_path / "1_results.db", one))

    gpu = rank.group("gpu")
    assert len(gpu) == 12
    assert "kernel without a name" in {rank.text(name) for name in gpu.name}
    assert [note.count for note in rank.notes if note.code == "rocprof_rows_dropped"] == [6]


def _run(*statements: str) -> Callable[[sqlite3.Connection], None]:
    def change(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return change


@pytest.mark.parametrize(
    "table",
    ["info_node", "info_process", "info_thread", "event", "arg", "info_kernel_symbol", "region",
     "memory_copy", "info_agent", "metadata"],
)  # fmt: skip
def test_a_missing_table_leaves_the_rest(tmp_path: Path, table: str) -> None:
    path = write(tmp_path / "1_results.db", whole(), views=False)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TABLE `rocpd_{table}{UUID}`")

    ranks = read(path)

    kernels = sum(len(rank.group("gpu")) for rank in ranks)
    assert kernels == {"info_agent": 0, "memory_copy": 15}.get(table, 17)


HOSTILE = {
    "an id that occurs a thousand times": _run(
        f"CREATE TABLE copy AS SELECT * FROM `rocpd_event{UUID}`",
        f"DROP TABLE `rocpd_event{UUID}`",
        f"CREATE TABLE `rocpd_event{UUID}` AS SELECT copy.* FROM copy, copy AS b LIMIT 5000",
    ),
    "a column that is computed": _run(
        f"DROP TABLE `rocpd_region{UUID}`",
        f"CREATE TABLE `rocpd_region{UUID}` (id, start AS (zeroblob(1000000000)), end)",
        f"INSERT INTO `rocpd_region{UUID}` (id, end) VALUES (1, 2)",
    ),
    "a view under the name of a table": _run(
        f"DROP TABLE `rocpd_region{UUID}`",
        f"CREATE VIEW `rocpd_region{UUID}` AS WITH RECURSIVE n(x) AS "
        "(SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, x AS start, x AS end FROM n",
    ),
    "texts that are no text": _run(
        f"UPDATE `rocpd_string{UUID}` SET string = x'ff00fe'",
        f"UPDATE `rocpd_info_kernel_symbol{UUID}` SET display_name = 17, kernel_name = NULL",
        f"UPDATE `rocpd_info_agent{UUID}` SET product_name = x'00ff', type_index = 'one'",
        f"UPDATE `rocpd_info_process{UUID}` SET pid = 'p', environment = '[1'",
    ),
    "names with quotes": _run('CREATE TABLE "rocpd_region_a-b" (id, "sta""rt", end)'),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_database_is_read_without_what_is_hostile(
    tmp_path: Path, change: Callable[[sqlite3.Connection], None]
) -> None:
    path = write(tmp_path / "1_results.db", whole(), views=False)
    with closing(sqlite3.connect(path)) as connection, connection:
        change(connection)

    ranks = read(path)

    assert sum(len(rank.group("gpu")) for rank in ranks) == 17


def test_a_damaged_database_is_refused_in_one_line_or_read_with_a_note(tmp_path: Path) -> None:
    """Bytes at random; SQLite reads some of the files and finds the damage only when it checks."""
    data = bytearray(write(tmp_path / "whole.db", whole()).read_bytes())
    dice = random.Random(5)
    path = tmp_path / "1_results.db"
    refused: list[str] = []
    noted = 0
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(dice.randrange(1, 40)):
            damaged[dice.randrange(100, len(data))] = dice.randrange(256)
        path.write_bytes(damaged[: dice.choice((len(data), len(data) // 2))])
        try:
            ranks = read(path)
            noted += any(note.code == "damaged_database" for note in ranks[0].notes)
            assert ranks[0].truncated == any(n.code == "damaged_database" for n in ranks[0].notes)
        except TraceError as error:
            refused.append(str(error))

    assert refused
    assert noted
    assert not any("\n" in one for one in refused)


def test_a_name_in_an_error_is_printable(tmp_path: Path) -> None:
    path = write(tmp_path / "1_results.db", whole(), views=False)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET name = 'x' || char(27, 7) WHERE rowid = 3")

    with pytest.raises(TraceError) as caught:
        read(path)

    assert str(caught.value).isprintable()


@pytest.mark.parametrize("data", [b"", b"SQLite format 3\0", b"x" * 9999])
def test_what_is_no_database(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "1_results.db"
    path.write_bytes(data)

    with pytest.raises(TraceError) as caught:
        read(path)

    assert "\n" not in str(caught.value)


def test_nothing_is_written_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path / "1_results.db", whole())
    before = path.read_bytes()

    read(path)

    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_a_log_beside_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "1_results.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE rocpd_string (id, string)")
    connection.execute("CREATE TABLE rocpd_region (id, start, end)")
    connection.commit()

    with pytest.raises(TraceError, match="wal_checkpoint"):
        read(path)
    connection.close()


def test_reading_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    path = write(tmp_path / "1_results.db", whole())

    with pytest.raises(CancelledError):
        read_rocpd(path, shown="x", cancelled=lambda: True)
