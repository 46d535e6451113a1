"""Test tables of nsys recipe in csv and Parquet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.discovery.sniff import sniff
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.stats_text import read_stats_text

NCCL = (
    "Text,Count,Mean,Std,Min,Q1,Median,Q3,Max,Sum,Rank,File\n"
    "NCCL:ncclAllReduce,4,250.5,10.0,100,200.0,250.0,300.0,400,1002,0,a.nsys-rep\n"
    "NCCL:ncclSend,1,7.0,0.0,7,7.0,7.0,7.0,7,7,1,b.nsys-rep\n"
)


def kind(path: Path) -> str:
    return sniff(str(path), path.name, path.stat().st_size).kind


def test_the_summary_of_nccl_is_in_ns(tmp_path: Path) -> None:
    path = tmp_path / "rank_stats.csv"
    path.write_text(NCCL)

    (section,) = read_stats_text(path).tables

    assert (kind(path), section.report) == ("nsys_text", "nccl_sum")
    assert section.text("Text").values == ("NCCL:ncclAllReduce", "NCCL:ncclSend")
    assert section.number("Total Time").ns().tolist() == [1002, 7]
    assert section.number("Avg").floats().tolist() == [250.5, 7.0]
    assert section.number("Count").floats().tolist() == [4, 1]
    assert section.number("Rank").floats().tolist() == [0, 1]


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


def test_a_table_of_parquet_is_the_same(tmp_path: Path) -> None:
    times = {"Avg": [1000.0, 500.0], "Q1": [900.0, 500.0], "Med": [1000.0, 500.0]}
    columns = {"Time": [75.0, 25.0], "Total Time": [3000, 500], "Instances": [3, 1], **times}
    path = parquet(tmp_path / "all_stats.parquet", {**columns, "Name": ["gemm", 'a, "b"']})

    (section,) = read_stats_text(path).tables

    assert (kind(path), section.report) == ("nsys_text", "cuda_gpu_kern_sum")
    assert section.text("Name").values == ("gemm", 'a, "b"')
    assert section.number("Total Time").ns().tolist() == [3000, 500]


def test_other_parquet_tables_are_rejected(tmp_path: Path) -> None:
    path = parquet(tmp_path / "all_stats.parquet", {"Name": ["x"], "Bins": [1]})
    with pytest.raises(TraceError, match="a Parquet file of no recipe that is known here"):
        read_stats_text(path)
    assert kind(parquet(tmp_path / "files.parquet", {"Rank": [0]})) == "unknown"


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + bytes(64) + b"PAR1"])
def test_a_damaged_or_unreadable_table_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rank_stats.parquet"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read_stats_text(path)
    assert "rank_stats.parquet" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_error_without_pyarrow_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "all_stats.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(TraceError, match=r"needs pyarrow: install ccltui\[arrow\], or .* --csv"):
        read_stats_text(path)
