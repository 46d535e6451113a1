"""Test the ranks of an nsys file and their sources."""

from __future__ import annotations

from pathlib import Path

from nsys_exports import COMMUNICATOR, Export

from ccltui.parsers.columns import Device
from ccltui.parsers.nsys.nsys_reader import read_nsys


def ranks(path: Path) -> list[tuple[str, int | None, str, int | None]]:
    return [(t.source.part_name, t.rank, t.rank_source, t.world_size) for t in read_nsys(path)]


def test_two_processes_have_ranks_from_nccl_payloads(tmp_path: Path) -> None:
    export = Export()
    for pid, rank in ((100, 5), (101, 4)):
        process = export.process(pid)
        process.kernel("gemm", 10, 20, device=pid - 100)
        process.nccl(rank, 8)

    found = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert [(t.source.part, t.source.parts, t.rank) for t in found] == [(0, 2, 5), (1, 2, 4)]
    assert {(t.rank_source, t.world_size) for t in found} == {("NCCL payload", 8)}
    assert found[0].process_groups[0].ranks == tuple(range(8))
    assert found[0].process_groups[0].name == hex(COMMUNICATOR)


def test_processes_on_devices_of_one_number_are_distinct_ranks(tmp_path: Path) -> None:
    export = Export()
    for pid in (100, 101):  # each sees one device, its own
        export.process(pid).kernel("gemm", 10, 20, device=0)

    assert ranks(export.write(tmp_path / "a.sqlite")) == [
        ("process 100 GPU 0", None, "none", None),
        ("process 101 GPU 0", None, "none", None),
    ]


def test_devices_of_one_process_are_parts_that_share_its_threads(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.kernel("a", 10, 20, device=0, launched=1)
    process.kernel("b", 30, 40, device=1, launched=2)
    process.copy(50, 60, 8, device=2)  # a device that it only copies to

    first, second = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert [t.source.part_name for t in (first, second)] == ["GPU 0", "GPU 1"]
    assert [len(t.group("gpu")) for t in (first, second)] == [2, 1]
    assert [len(t.group("runtime")) for t in (first, second)] == [2, 2]
    assert [track.device for track in first.tracks if track.kind == "stream"] == [0, 2]


def test_the_launched_process_states_its_rank(tmp_path: Path) -> None:
    export = Export()
    export.environment("SLURM_PROCID", "6")
    export.environment("WORLD_SIZE", "8")
    export.process(100).kernel("gemm", 10, 20)

    assert ranks(export.write(tmp_path / "a.sqlite")) == [("", 6, "environment", 8)]


def test_a_parent_of_several_ranks_states_its_node_only(tmp_path: Path) -> None:
    export = Export()
    export.environment("SLURM_PROCID", "1")
    export.environment("SLURM_NODEID", "1")
    for pid in (100, 101):
        export.process(pid).kernel("gemm", 10, 20, device=pid - 100)

    path = export.write(tmp_path / "a.sqlite")

    assert ranks(path) == [("GPU 0", 2, "environment", None), ("GPU 1", 3, "environment", None)]
    assert [note.code for note in read_nsys(path)[0].notes] == ["rank_guessed"]


def test_a_communicator_smaller_than_the_world_names_no_ranks(tmp_path: Path) -> None:
    export = Export()
    export.environment("WORLD_SIZE", "8")
    export.environment("RANK", "6")
    process = export.process(100)
    process.kernel("gemm", 10, 20)
    process.nccl(0, 2)

    assert ranks(export.write(tmp_path / "a.sqlite")) == [("", 6, "environment", 8)]


def test_two_groups_of_a_file_that_both_begin_at_rank_0_name_no_ranks(tmp_path: Path) -> None:
    export = Export()
    for pid in (100, 101):
        process = export.process(pid)
        process.kernel("gemm", 10, 20, device=pid - 100)
        process.nccl(0, 2, communicator=pid)

    assert [rank for _, rank, _, _ in ranks(export.write(tmp_path / "a.sqlite"))] == [None, None]


def test_ranks_from_mpi_tables(tmp_path: Path) -> None:
    export = Export()
    for pid, rank in ((100, 1), (101, 0)):
        process = export.process(pid)
        process.kernel("gemm", 10, 20, device=pid - 100)
        export.add("MPI_RANKS", globalTid=process.global_tid, rank=rank)

    assert [(r, s) for _, r, s, _ in ranks(export.write(tmp_path / "a.sqlite"))] == [
        (1, "MPI"),
        (0, "MPI"),
    ]


def test_processes_without_device_work_are_no_ranks(tmp_path: Path) -> None:
    export = Export()
    export.process(90).range("launcher", 1, 2)
    export.process(100).kernel("gemm", 10, 20)

    (trace,) = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert len(trace.group("annotations")) == 0
    assert trace.source.part_name == ""


def test_a_file_without_device_work_is_one_trace(tmp_path: Path) -> None:
    export = Export()
    export.process(100).range("main", 1, 5)
    export.process(101).os_call("poll", 2, 3)

    (trace,) = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert (len(trace.group("annotations")), len(trace.group("other"))) == (1, 1)
    assert len(trace.group("gpu")) == 0


def test_the_device_is_the_one_that_the_process_sees(tmp_path: Path) -> None:
    export = Export()
    export.process(100).kernel("gemm", 10, 20, device=0)
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA T4", totalMemory=1, smCount=40)
    export.add("TARGET_INFO_GPU", id=3, name="NVIDIA A100", totalMemory=80, smCount=108)
    export.add("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=0, pid=100)

    (trace,) = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert trace.devices == (Device(0, "NVIDIA A100", 80, 108),)


def test_an_export_that_names_no_process_keeps_its_threads(tmp_path: Path) -> None:
    export = Export(drop_columns={"CUPTI_ACTIVITY_KIND_KERNEL": ("globalPid",)})
    export.process(100).kernel("gemm", 10, 20, launched=5)

    (trace,) = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert [len(trace.group(group)) for group in ("gpu", "runtime")] == [1, 1]
    assert trace.group("gpu").correlation.tolist() == trace.group("runtime").correlation.tolist()
