"""Compare exports in Parquet and Arrow with the same export in SQLite."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from nsys_exports import SECRET, Export

from ccltui.parsers.columns import Events, RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.job import open_job

FORMS = ("parquet", "arrow", "file", "arrows")


def export() -> Export:
    found = Export()
    found.environment("RANK", "3")
    process = found.process(100)
    process.nccl(1, 2)
    process.collective("ncclAllReduce", 10, 20, size=4096)
    process.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 30, 60, launched=15)
    process.kernel("gemm", 70, 80, launched=22)
    process.copy(90, 95, 512)
    process.range("step 1", 5, 99, registered=True)
    return found


def convert(pa: Any, source: Path, directory: Path, form: str) -> Path:
    """Write the tables as nsys does, with unsigned ids; return the path that names the export."""
    import pyarrow.parquet as pq

    directory.mkdir()
    tables = {}
    with closing(sqlite3.connect(source)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            cursor = database.execute(f'SELECT * FROM "{name}"')
            names = [one[0] for one in cursor.description]
            columns = list(zip(*cursor.fetchall(), strict=True))
            unsigned = {"globalTid", "globalPid"}
            arrays = [
                pa.array([None if v is None else v % (1 << 64) for v in values], pa.uint64())
                if one in unsigned
                else pa.array(values)
                for one, values in zip(names, columns, strict=True)
            ]
            tables[name] = pa.table(arrays, names)
    if form == "arrows":
        with (directory / "a.arrows").open("wb") as file:
            for name, table in tables.items():
                named = table.replace_schema_metadata({"table_name": name})
                with pa.ipc.new_stream(file, named.schema) as writer:
                    writer.write_table(named)
        return directory / "a.arrows"
    suffix = "parquet" if form == "parquet" else "arrow"
    for name, table in tables.items():
        path = directory / f"{name}.{suffix}"
        if form == "parquet":
            pq.write_table(table, path)
        else:
            new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
            with new(str(path), table.schema) as writer:
                writer.write_table(table)
    return directory / f"StringIds.{suffix}"


def columns(trace: RankTrace) -> dict[str, list[Any]]:
    """Return every column of a rank, with names in place of ids, and its other facts."""
    found: dict[str, list[Any]] = {"rank": [trace.rank, trace.world_size, trace.host]}
    for group, events in trace.events.items():
        for name, _ in Events.COLUMNS:
            values = getattr(events, name).tolist()
            is_text = name in ("name", "category")
            found[f"{group}/{name}"] = [trace.text(v) for v in values] if is_text else values
    return found


@pytest.mark.parametrize("form", FORMS)
def test_the_same_columns_from_every_form(tmp_path: Path, form: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    source = export().write(tmp_path / "a.sqlite")
    convert(pa, source, tmp_path / "tables", form)
    (expected,) = open_job(source, cache_dir=tmp_path / "cache").ranks

    job = open_job(tmp_path / "tables", cache_dir=tmp_path / "cache")

    (trace,) = job.ranks
    assert columns(trace) == columns(expected)
    assert (trace.rank, trace.world_size) == (1, 2)


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_not_copied(tmp_path: Path, form: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    from ccltui.parsers.nsys.report_export import sqlite_of

    source = export().write(tmp_path / "a.sqlite")
    path = convert(pa, source, tmp_path / "tables", form)

    made = sqlite_of(path, tmp_path / "made.sqlite", shown="tables")

    assert SECRET.encode() in path.read_bytes() or form != "arrows"
    assert SECRET.encode() not in made.read_bytes()


def test_damage_is_an_error_of_one_line(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    path = convert(pa, export().write(tmp_path / "a.sqlite"), tmp_path / "tables", "parquet")
    kernels = path.with_name("CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    kernels.write_bytes(kernels.read_bytes()[:200])

    (failure,) = open_job(tmp_path / "tables", cache_dir=tmp_path / "cache").failures

    assert "cannot be read" in failure.error
    assert "\n" not in failure.error


def test_error_without_pyarrow_names_the_solution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "StringIds.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    (tmp_path / "OSRT_API.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")

    job = open_job(tmp_path, cache_dir=tmp_path / "cache")

    (failure,) = job.failures
    assert failure.error == (
        "StringIds.parquet: tables of an nsys export that need pyarrow: install ccltui[arrow], or "
        "run `nsys export -t sqlite` on the report"
    )
    kinds = {found.path: found.kind for found in discover(tmp_path).files}
    assert kinds["StringIds.parquet"] == "nsys_tables"
    assert kinds["OSRT_API.parquet"] == "unknown"
