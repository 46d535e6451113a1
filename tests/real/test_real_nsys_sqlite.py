"""Real exports against what the real nsys says of them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ccltui.parsers.columns import Group, RankTrace
from ccltui.parsers.nsys.nsys_reader import read_nsys

DDP53 = "nsys/ddp53/profiles/ddp53_profile.sqlite"
BEFORE = "nsys/nsys-ai/mfu_2gpu_before.sqlite"


@pytest.fixture(scope="module")
def ddp53(shared: Path) -> tuple[RankTrace, ...]:
    return tuple(read_nsys(shared / DDP53))


def sums(traces: tuple[RankTrace, ...], group: Group) -> dict[str, tuple[int, int]]:
    """Name -> (total ns, count) over all ranks."""
    total, count = Counter[str](), Counter[str]()
    for trace in traces:
        events = trace.group(group)
        for name in np.unique(events.name).tolist():
            rows = events.name == name
            total[trace.text(name)] += int(events.dur_ns[rows].sum())
            count[trace.text(name)] += int(rows.sum())
    return {name: (total[name], count[name]) for name in total}


def oracle(shared: Path, report: str, name: str, count: str) -> dict[str, tuple[int, int]]:
    with (shared / f"nsys/oracle/ddp53_{report}.csv").open(newline="") as file:
        return {
            row[name]: (int(row["Total Time (ns)"]), int(row[count]))
            for row in csv.DictReader(file)
        }


def test_device_work_is_that_of_cuda_gpu_sum(shared: Path, ddp53: tuple[RankTrace, ...]) -> None:
    expected = oracle(shared, "cuda_gpu_sum", "Operation", "Instances")

    assert sums(ddp53, "gpu") == expected
    assert len(expected) == 63


def test_every_row_is_that_of_cuda_gpu_trace(shared: Path, ddp53: tuple[RankTrace, ...]) -> None:
    with (shared / "nsys/oracle/ddp53_cuda_gpu_trace.csv").open(newline="") as file:
        expected = sorted(
            (int(r["Start (ns)"]), int(r["Duration (ns)"]), r["Name"], int(r["Strm"]))
            for r in csv.DictReader(file)
        )
    found: list[tuple[int, int, str, int]] = []
    for trace in ddp53:
        gpu = trace.group("gpu")
        starts = (gpu.start_ns - trace.base_ns).tolist()
        names = [trace.text(int(i)) for i in gpu.name]
        streams = [trace.tracks[i].stream for i in gpu.track]
        found += zip(starts, gpu.dur_ns.tolist(), names, streams, strict=True)

    assert sorted(found) == expected
    assert len(found) == 5012


def test_calls_are_those_of_cuda_api_sum(shared: Path, ddp53: tuple[RankTrace, ...]) -> None:
    expected = oracle(shared, "cuda_api_sum", "Name", "Num Calls")
    found = Counter[str]()
    for name, (total, _) in sums(ddp53, "runtime").items():
        bare, mark, version = name.rpartition("_v")
        found[bare if mark and len(version) == 4 and version.isdecimal() else name] += total

    assert dict(found) == {name: total for name, (total, _) in expected.items()}


def test_ranges_are_those_of_nvtx_sum(shared: Path, ddp53: tuple[RankTrace, ...]) -> None:
    assert sums(ddp53, "annotations") == oracle(shared, "nvtx_sum", "Range", "Instances")


def test_ranks_and_communicator_of_a_real_run(ddp53: tuple[RankTrace, ...]) -> None:
    assert [(t.rank, t.rank_source, t.world_size) for t in ddp53] == [
        (0, "NCCL payload", 2),
        (1, "NCCL payload", 2),
    ]
    assert [d.name for t in ddp53 for d in t.devices] == ["NVIDIA GeForce RTX 3090"] * 2
    for trace in ddp53:
        assert [(g.ranks, g.size) for g in trace.process_groups] == [((0, 1), 2)]
        # 111 broadcasts, 111 + 3 + 5 all-reduces: every kernel of NCCL has its call.
        assert int((trace.group("gpu").args >= 0).sum()) == 230
        assert int((trace.group("annotations").args >= 0).sum()) == 230


def test_message_sizes_of_a_real_run(ddp53: tuple[RankTrace, ...]) -> None:
    for trace in ddp53:
        args = trace.group("gpu").args
        table = trace.collective_args
        sizes = Counter(
            (trace.text(int(table.op[row])), int(table.in_elems[row])) for row in args[args >= 0]
        )

        assert sizes == {
            ("ncclBroadcast", 1536): 25,
            ("ncclBroadcast", 1179648): 48,
            ("ncclBroadcast", 4718592): 36,
            ("ncclBroadcast", 15360000): 2,
            ("ncclAllReduce", 1536): 25,
            ("ncclAllReduce", 1179648): 48,
            ("ncclAllReduce", 4718592): 36,
            ("ncclAllReduce", 15360000): 2,
            ("ncclAllReduce", 24): 5,
            ("ncclAllReduce", 4): 3,
        }


def test_two_devices_without_names_or_payload(shared: Path) -> None:
    traces = read_nsys(shared / BEFORE)

    assert [t.source.part_name for t in traces] == ["GPU 0", "GPU 1"]
    assert [t.rank for t in traces] == [None, None]
    assert [len(t.group("gpu")) for t in traces] == [1993 + 643, 2017 + 646]
    kernels = [sums((t,), "gpu") for t in traces]
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)"
    assert [k[name] for k in kernels] == [(17172652, 33), (8229100, 33)]
    assert [t.devices for t in traces] == [(), ()]


@pytest.mark.parametrize(
    ("folder", "counts"),
    [
        ("nsys-ai/mock", {"gpu": 3, "gpu_sync": 1, "runtime": 9}),
        (
            "paracodex/workdirs/cuda_omp_pareval_workdir/golden_labels/src/microXOR-cuda/nsys_profile",
            {"gpu": 3, "runtime": 8, "other": 563},
        ),
        (
            "paracodex/workdirs/serial_omp_hecbench_workdir/data/src/atomicIntrinsics-omp/nsys_profile",
            {"other": 2299},
        ),
        (
            "paracodex/workdirs/serial_omp_hecbench_workdir/data/src/pathfinder-omp/nsys_profile",
            {"gpu": 3, "gpu_sync": 1, "runtime": 15, "other": 519},
        ),
    ],
)
def test_small_files(shared: Path, folder: str, counts: dict[str, int]) -> None:
    (trace,) = read_nsys(shared / "nsys" / f"{folder}.sqlite")

    assert trace.counts == counts
    assert trace.rank is None
