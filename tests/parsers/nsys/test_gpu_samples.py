"""Test GPU metrics, and CUDA graphs that were recorded as one item."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from nsys_exports import Export

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.store.column_store import Store

GPU0, GPU1 = 0x3000_0100_0000_0000, 0x3000_0100_0000_0001  # the last byte numbers the device
START = 1_700_000_000_000_000_000


def export() -> Export:
    found = Export(start_utc_ns=START)
    for kind in (GPU0, GPU1):
        for metric, name in enumerate(("GPC Clock Frequency [MHz]", "SMs Active [Throughput %]")):
            found.add("TARGET_INFO_GPU_METRICS", typeId=kind, metricId=metric + 1, metricName=name)
    for time in (300, 100, 200):
        for kind, value in ((GPU0, time // 10), (GPU1, 7)):
            found.add("GPU_METRICS", timestamp=time, typeId=kind, metricId=1, value=-2140552984)
            found.add("GPU_METRICS", timestamp=time, typeId=kind, metricId=2, value=value)
    return found


def readings(trace: RankTrace) -> list[tuple[int, str, float]]:
    samples = trace.samples
    rows = zip(samples.time_ns.tolist(), samples.name.tolist(), samples.value.tolist(), strict=True)
    return [(time - START, trace.text(name), value) for time, name, value in rows]


def test_each_rank_has_the_samples_of_its_device(tmp_path: Path) -> None:
    found = export()
    found.process(100).kernel("gemm", 50, 90, device=0)
    found.process(101).kernel("gemm", 50, 90, device=0)
    found.add("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=101)

    first, second = read_nsys(found.write(tmp_path / "a.sqlite"))

    name = "SMs Active [Throughput %]"
    assert readings(first) == [(100, name, 10.0), (200, name, 20.0), (300, name, 30.0)]
    assert readings(second) == [(100, name, 7.0), (200, name, 7.0), (300, name, 7.0)]
    assert {note.code: note.count for note in first.notes} == {"gpu_metrics": 6}


def test_samples_are_restored_from_the_store(tmp_path: Path) -> None:
    found = export()
    found.process(100).kernel("gemm", 50, 90)
    (trace,) = read_nsys(found.write(tmp_path / "a.sqlite"))
    store = Store(tmp_path / "cache")

    assert store.save("k", trace)
    kept = store.load("k")

    assert kept is not None
    assert readings(kept) == readings(trace)


def test_samples_without_counter_names_are_counted(tmp_path: Path) -> None:
    found = Export()
    found.process(100).kernel("gemm", 50, 90)
    found.add("GPU_METRICS", timestamp=1, typeId=GPU0, metricId=2, value=5)

    (trace,) = read_nsys(found.write(tmp_path / "a.sqlite"))

    assert len(trace.samples) == 0
    assert [(note.code, note.count) for note in trace.notes] == [("gpu_metrics", 1)]


def test_graphs_are_events_apart_from_device_work(tmp_path: Path) -> None:
    found = Export(start_utc_ns=START)
    process = found.process(100)
    process.kernel("gemm", 50, 90, stream=7)
    found.add(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        start=100,
        end=400,
        deviceId=0,
        graphId=5,
        streamId=7,
        correlationId=9,
        globalPid=process.global_pid,
    )

    (trace,) = read_nsys(found.write(tmp_path / "a.sqlite"))

    gpu = trace.group("gpu")
    rows = [row for row, i in enumerate(gpu.category) if trace.text(int(i)) == "cuda_graph"]
    graphs = gpu.take(np.array(rows))
    assert len(gpu) == 2
    assert [trace.text(int(i)) for i in graphs.name] == ["[CUDA graph 5]"]
    assert graphs.start_ns.tolist() == [START + 100]
    assert graphs.dur_ns.tolist() == [300]
    assert len(set(gpu.track.tolist())) == 1
    (note,) = trace.notes
    assert (note.code, note.count) == ("cuda_graphs", 1)
    assert "--cuda-graph-trace=node" in note.message


def test_a_file_of_graphs_alone_has_its_rank(tmp_path: Path) -> None:
    found = Export()
    process = found.process(100)
    for device in (0, 1):
        found.add(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            start=1,
            end=4,
            deviceId=device,
            graphId=1,
            streamId=7,
            globalPid=process.global_pid,
        )

    (trace,) = read_nsys(found.write(tmp_path / "a.sqlite"))

    assert trace.counts == {"gpu": 2}


def test_metrics_of_old_releases_are_noted_and_not_read(tmp_path: Path) -> None:
    export = Export()
    export.process(100).kernel("gemm", 10, 20)
    export.add("GENERIC_EVENTS", timestamp=1, typeId=7, data='{"SM Active": "5"}')
    (trace,) = read_nsys(export.write(tmp_path / "old.sqlite"))

    (note,) = [note for note in trace.notes if note.code == "generic_events"]
    assert (note.count, len(trace.samples)) == (1, 0)
    assert "2021 and 2022" in note.message
    export.add("GPU_METRICS", timestamp=1, typeId=1, metricId=1, value=5)
    (newer,) = read_nsys(export.write(tmp_path / "new.sqlite"))
    assert not [note for note in newer.notes if note.code == "generic_events"]
