"""Test the events of an nsys export: their groups, times and names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nsys_exports import SECRET, Export

from ccltui.parsers.columns import Events, Group, RankTrace
from ccltui.parsers.errors import CancelledError
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.nsys.sqlite import database

UTC = 1_700_000_000_000_000_000


def named(trace: RankTrace, group: Group) -> list[tuple[str, int, int]]:
    """Return (name, start since the session's start, duration) of each row."""
    events: Events = trace.group(group)
    starts = (events.start_ns - trace.base_ns).tolist()
    names = [trace.text(int(i)) for i in events.name]
    return list(zip(names, starts, events.dur_ns.tolist(), strict=True))


def only(path: Path) -> RankTrace:
    (trace,) = read_nsys(path)
    return trace


def test_device_work_is_one_group_by_start_with_its_bytes(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.kernel("gemm(float*)", 50, 90, stream=7)
    process.copy(10, 30, 4096, kind=1, stream=8)
    process.copy(30, 31, 64, kind=8)
    process.fill(40, 44, 512)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert named(trace, "gpu") == [
        ("[CUDA memcpy Host-to-Device]", 10, 20),
        ("[CUDA memcpy Device-to-Device]", 30, 1),
        ("[CUDA memset]", 40, 4),
        ("gemm(float*)", 50, 40),
    ]
    gpu = trace.group("gpu")
    assert gpu.bytes.tolist() == [4096, 64, 512, -1]
    assert [trace.text(int(i)) for i in gpu.category] == [
        "gpu_memcpy",
        "gpu_memcpy",
        "gpu_memset",
        "kernel",
    ]
    streams = [(trace.tracks[i].kind, trace.tracks[i].stream) for i in gpu.track]
    assert streams == [("stream", 8), ("stream", 7), ("stream", 7), ("stream", 7)]
    assert [column.dtype for column in (gpu.start_ns, gpu.name)] == [np.int64, np.int32]


def test_times_are_utc_from_the_start_of_the_session(tmp_path: Path) -> None:
    export = Export(start_utc_ns=UTC)
    export.process(100).kernel("gemm", -5, 40)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert trace.base_ns == UTC
    assert trace.first_ns == UTC - 5
    assert (trace.host, trace.source.format) == ("node1", "nsys")


def test_normalised_exports_already_are_utc(tmp_path: Path) -> None:
    export = Export(start_utc_ns=UTC)
    export.add("META_DATA_EXPORT", name="EXPORT_PARAM_TIME_NORMALIZE", value="true")
    export.process(100).kernel("gemm", UTC + 7, UTC + 9)

    assert only(export.write(tmp_path / "a.sqlite")).first_ns == UTC + 7


def test_file_without_a_start_counts_from_zero_with_a_note(tmp_path: Path) -> None:
    export = Export(start_utc_ns=None)
    export.process(100).kernel("gemm", 7, 9)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert trace.first_ns == 7
    assert [note.code for note in trace.notes] == ["no_session_start"]


def test_host_side_groups(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100, tid=101)
    process.kernel("gemm", 50, 90, launched=20)
    process.range("forward pass", 10, 60)
    process.range("aten::add, op_id = 314359", 12, 15)
    process.range("aten::mul, seq = 4, op_id = 2, sizes = [[1, 2]]", 16, 17)
    process.range("nccl:all_to_all, op_id = 9", 18, 19)
    process.os_call("poll", 5, 9)
    process.os_call("profiling started", 1, 2, event_class=31)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert named(trace, "runtime") == [("cudaLaunchKernel_v7000", 20, 2)]
    assert named(trace, "annotations") == [("forward pass", 10, 50), ("nccl:all_to_all", 18, 1)]
    assert named(trace, "cpu_ops") == [("aten::add", 12, 3), ("aten::mul", 16, 1)]
    assert named(trace, "other") == [("poll", 5, 4)]
    assert trace.group("runtime").correlation.tolist() == [1]
    assert trace.group("gpu").correlation.tolist() == [1]
    track = trace.tracks[int(trace.group("runtime").track[0])]
    assert (track.kind, track.pid, track.tid) == ("thread", "100", "101")


def test_names_are_prefixed_with_their_domain_but_the_default(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.kernel("gemm", 50, 90)
    process.range("step", 1, 2, domain=3, registered=True)  # before its domain is known
    process.domain(3, "loader")
    process.range(":DeepSpeedEngine.backward", 3, 4)
    process.range("plain", 5, 6, registered=True)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert [name for name, _, _ in named(trace, "annotations")] == [
        "loader:step",
        "DeepSpeedEngine.backward",
        "plain",
    ]


def test_open_ranges_and_impossible_events_are_dropped_and_counted(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.kernel("gemm", 50, 90)
    process.kernel("bad", 90, 50)
    process.range("open", 1, None)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert [name for name, _, _ in named(trace, "gpu")] == ["gemm"]
    assert {note.code: note.count for note in trace.notes} == {
        "open_ranges": 1,
        "negative_duration": 1,
    }


def test_graphs_and_metrics_are_noted(tmp_path: Path) -> None:
    export = Export()
    export.process(100).kernel("gemm", 50, 90)
    export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=1, end=2, graphId=1)
    for time in range(3):
        export.add("GPU_METRICS", timestamp=time, typeId=1, metricId=1, value=50)
    export.add("DIAGNOSTIC_EVENT", text="Not all NVTX events might have been collected.")

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert {note.code: note.count for note in trace.notes} == {
        "cuda_graphs": 1,
        "gpu_metrics": 3,
        "nsys_diagnostic": 1,
    }


@pytest.mark.parametrize(
    "dropped",
    [
        {"CUPTI_ACTIVITY_KIND_KERNEL": ("demangledName",)},
        {"NVTX_EVENTS": ("jsonText", "domainId", "textId")},
        {"CUPTI_ACTIVITY_KIND_RUNTIME": ("eventClass",), "CUPTI_ACTIVITY_KIND_MEMCPY": ("bytes",)},
        {"TARGET_INFO_GPU": ("totalMemory", "smCount")},
    ],
)
def test_columns_that_an_export_lacks_are_missing(
    tmp_path: Path, dropped: dict[str, tuple[str, ...]]
) -> None:
    export = Export(drop_columns=dropped)
    process = export.process(100)
    process.kernel("gemm", 50, 90, launched=20)
    process.copy(10, 30, 4096)
    process.range("forward", 1, 2)
    export.add("TARGET_INFO_GPU", id=0, name="A100", totalMemory=1, smCount=108)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert [name for name, _, _ in named(trace, "gpu")] == ["[CUDA memcpy Host-to-Device]", "gemm"]
    assert named(trace, "annotations") == [("forward", 1, 1)]
    assert trace.group("gpu").bytes.tolist()[0] in (4096, -1)


def test_rows_come_in_blocks_and_the_result_does_not_depend_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Export()
    process = export.process(100)
    for index in range(100):
        process.kernel(f"k{index % 7}", 1000 - 10 * index, 1005 - 10 * index, launched=index)
        process.range(f"r{index % 3}", index, index + 1)
    path = export.write(tmp_path / "a.sqlite")
    whole = only(path)
    seen: list[int] = []

    monkeypatch.setattr(database, "BLOCK_ROWS", 7)
    (trace,) = read_nsys(path, progress=seen.append)

    for group in ("gpu", "runtime", "annotations"):
        assert named(trace, group) == named(whole, group)
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size
    assert len(seen) == 45  # 300 rows


def test_reading_can_be_stopped(tmp_path: Path) -> None:
    export = Export()
    export.process(100).kernel("gemm", 50, 90)
    path = export.write(tmp_path / "a.sqlite")

    with pytest.raises(CancelledError):
        read_nsys(path, cancelled=lambda: True)


def test_environment_is_not_in_the_columns(tmp_path: Path) -> None:
    export = Export()
    export.environment("RANK", "3")
    export.environment("MY_RANK", SECRET)
    process = export.process(100)
    process.kernel("gemm", 50, 90)
    process.os_call("poll", 1, 2)

    trace = only(export.write(tmp_path / "a.sqlite"))

    assert trace.rank == 3
    assert SECRET.encode() not in trace.strings.blob.tobytes()
    assert SECRET not in repr((trace.source, trace.notes, trace.tracks, trace.devices, trace.host))


def test_the_file_is_not_touched(tmp_path: Path) -> None:
    export = Export()
    export.process(100).kernel("gemm", 50, 90)
    path = export.write(tmp_path / "a 100%?#.sqlite")
    path.chmod(0o400)
    before = (path.read_bytes(), path.stat().st_mtime_ns)

    read_nsys(path)

    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
