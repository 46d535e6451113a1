"""Tables in Parquet and csv, read back by DuckDB, polars and pandas."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ccltui.export.tables import TABLES, write_tables
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View


@pytest.fixture(scope="module")
def parquet(view: View, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("parquet")
    write_tables(view, TABLES, folder, "parquet")
    return folder


@pytest.fixture(scope="module")
def text(view: View, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("csv")
    write_tables(view, TABLES, folder, "csv")
    return folder


def test_duckdb_finds_every_event_and_the_lag_of_every_collective(
    view: View, parquet: Path
) -> None:
    duckdb = pytest.importorskip("duckdb")
    events = sum(len(events) for rank in view.ranks for events in rank.trace.events.values())
    device_ns = sum(int(rank.trace.group("gpu").dur_ns.sum()) for rank in view.ranks)
    lags = sum(int(group.lag_ns[group.lag_ns >= 0].sum()) for group in view.arrivals.groups)

    query = (
        "select count(*), sum(dur_ns) filter (where \"group\" = 'gpu') "
        f"from '{parquet}/events.parquet'"
    )
    assert duckdb.sql(query).fetchall() == [(events, device_ns)]
    query = (
        "select sum(lag) from (select communicator, instance, any_value(lag_ns) lag "
        f"from '{parquet}/collectives.parquet' group by all)"
    )
    assert duckdb.sql(query).fetchall() == [(lags,)]


def test_polars_reads_nulls_where_nothing_is_recorded(view: View, parquet: Path) -> None:
    polars = pytest.importorskip("polars")

    events = polars.read_parquet(parquet / "events.parquet")

    assert events.columns == list(TABLES["events"].columns)
    host = events.filter(polars.col("group").cast(polars.String) == "cpu_ops")
    assert host.height
    assert host["stream"].null_count() == host.height
    assert events["start_ns"].min() == 0
    assert set(events["rank"].unique()) == {rank.label for rank in view.ranks}


def test_pandas_reads_the_numbers_of_metrics(view: View, parquet: Path) -> None:
    pandas = pytest.importorskip("pandas")

    table = pandas.read_parquet(parquet / "metrics.parquet")

    assert set(table["metric"]) == {one.name for one in metrics().values() if one.in_all}
    lag = metrics()["straggler_lag"]
    row = table[(table["metric"] == lag.name) & (table["key"] == lag.headline)].iloc[0]
    assert row["value"] == lag.run(view).value
    refused = table[table["status"] == "unavailable"]
    assert len(refused)
    assert refused["value"].isna().all()
    assert refused["reason"].str.len().min() > 0


def test_csv_and_parquet_hold_the_same(parquet: Path, text: Path) -> None:
    polars = pytest.importorskip("polars")
    for name, table in TABLES.items():
        frame = polars.read_parquet(parquet / f"{name}.parquet")
        with (text / f"{name}.csv").open(newline="") as file:
            header, *rows = csv.reader(file)

        assert header == list(table.columns)
        assert len(rows) == frame.height
        key = "rank" if "rank" in header else "metric"
        assert [row[header.index(key)] for row in rows] == frame[key].to_list()


def test_an_existing_file_is_never_replaced(view: View, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "metrics.csv").symlink_to(tmp_path / "elsewhere" / "new")

    for name in ("steps", "metrics"):
        with pytest.raises(FileExistsError):
            write_tables(view, [name], tmp_path, "csv")

    assert (tmp_path / "steps.csv").read_text() == "mine"
    assert not (tmp_path / "elsewhere" / "new").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "elsewhere",
        "metrics.csv",
        "steps.csv",
    ]
