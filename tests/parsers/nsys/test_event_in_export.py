"""The record of one event in an sqlite export and in a printed trace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from nsys_exports import Export

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.formats import read_event_record
from ccltui.parsers.job import open_job

LAUNCH = {
    "blockX": 256,
    "blockY": 2,
    "blockZ": 1,
    "registersPerThread": 40,
    "staticSharedMemory": 1024,
    "dynamicSharedMemory": 4096,
    "localMemoryPerThread": 16,
}


def export_of(path: Path) -> Path:
    """Two devices with a kernel each at the same time, whose launches differ."""
    export = Export()
    process = export.process(100)
    for device in (0, 1):
        process.kernel("gemm(float*)", 50, 90, device=device, launched=20)
        process.copy(100, 120, 4096, device=device)
    export.write(path)
    with closing(sqlite3.connect(path)) as base, base:
        known = {row[1] for row in base.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")}
        for name in (*LAUNCH, "gridX", "gridY", "gridZ"):
            if name not in known:
                base.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN {name} INTEGER")
        for name, value in LAUNCH.items():
            base.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {name} = {value}")
        base.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 10 + deviceId, gridY=3, gridZ=1"
        )
    return path


def ranks_of(path: Path) -> dict[int, RankTrace]:
    """Traces by the number of their device."""
    return {trace.tracks[0].device: trace for trace in open_job(path).ranks}


def test_a_kernel_of_an_export_has_its_launch_arguments(tmp_path: Path) -> None:
    for device, trace in ranks_of(export_of(tmp_path / "a.sqlite")).items():
        record = read_event_record(trace, "gpu", 0)

        assert (record.grid, record.block) == ((10 + device, 3, 1), (256, 2, 1))
        assert record.registers == 40
        assert (record.static_shared_bytes, record.dynamic_shared_bytes) == (1024, 4096)
        assert record.shared_bytes == 5120
        assert ("localMemoryPerThread", "16") in record.further
        assert record.occupancy_pct is None


def test_a_copy_has_none(tmp_path: Path) -> None:
    trace = ranks_of(export_of(tmp_path / "a.sqlite"))[0]
    record = read_event_record(trace, "gpu", 1)

    assert (record.grid, record.registers) == (None, None)
    assert ("copyKind", "1") in record.further


def test_a_replaced_export_is_noticed(tmp_path: Path) -> None:
    path = export_of(tmp_path / "a.sqlite")
    trace = ranks_of(path)[0]
    path.unlink()
    later = Export()
    later.process(100).kernel("gemm(float*)", 51, 90)
    later.write(path)

    with pytest.raises(TraceError, match="not found"):
        read_event_record(trace, "gpu", 0)
    path.unlink()
    with pytest.raises(TraceError, match="cannot be read"):
        read_event_record(trace, "gpu", 0)


def test_a_printed_trace_has_the_same_arguments(tmp_path: Path) -> None:
    text = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
        "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,"
        "Name\n"
        "1000,50,7,12,2,1,128,1,1,40,0.001,0.004,,,,,NVIDIA A100 (0),1,,7,gemm(float*)\n"
        "1000,60,8,,,,,,,,,,2.000,100.0,Pageable,Device,NVIDIA A100 (0),1,,7,"
        "[CUDA memcpy Host-to-Device]\n"
    )
    (tmp_path / "a_cuda_gpu_trace.csv").write_text(text)
    trace = open_job(tmp_path).ranks[0]
    gpu = trace.group("gpu")
    names = [trace.text(int(name)) for name in gpu.name]

    record = read_event_record(trace, "gpu", names.index("gemm(float*)"))

    assert (record.grid, record.block, record.registers) == ((12, 2, 1), (128, 1, 1), 40)
    assert (record.static_shared_bytes, record.dynamic_shared_bytes) == (1000, 4000)


def test_a_row_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    trace = ranks_of(export_of(tmp_path / "a.sqlite"))[0]
    with pytest.raises(IndexError):
        read_event_record(trace, "gpu", 99)
