"""Test profiles of XLA: one rank per TPU or GPU, its work and its steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from xla_traces import NCCL, device, gpu, label, written

from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.job import open_job
from ccltui.parsers.kineto.xla_profile import read_xla


@pytest.fixture(params=["0", "1"], ids=["general", "compiled"], autouse=True)
def _decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLTUI_ACCEL", request.param)


def test_each_device_is_a_rank(tmp_path: Path) -> None:
    first, second = read_xla(written(tmp_path / "t.json", device(0), device(1, late=5)))

    assert [trace.source.part_name for trace in (first, second)] == ["TPU 0", "TPU 1"]
    assert (first.rank, first.source.format, first.backend) == (None, "xla", "xla")
    gpu = second.group("gpu")
    assert [second.text(int(name)) for name in gpu.name] == [
        *("fusion.12", "all-reduce-start.1", "copy.3") * 2,
    ]
    assert gpu.start_ns.tolist() == [6000, 46000, 95000, 106000, 146000, 195000]
    assert {second.text(int(i)) for i in gpu.category} == {"kernel"}
    steps = second.group("annotations")
    assert [second.text(int(name)) for name in steps.name] == ["7", "8"]
    assert len(second.group("gpu_sync")) == 4
    assert {t.device for t in second.tracks if t.kind == "stream"} == {1}


def test_waits_count_as_work_without_the_asynchronous_row(tmp_path: Path) -> None:
    (only,) = read_xla(written(tmp_path / "t.json", device(0, beside=False)))

    names = [only.text(int(name)) for name in only.group("gpu").name]
    assert names[:3] == ["fusion.12", "all-reduce-done.1", "copy.3"]
    assert [only.text(int(name)) for name in only.group("gpu_sync").name] == [
        "all-reduce-start.1"
    ] * 2
    assert only.source.part_name == ""


def test_the_directory_is_opened_and_stored(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "2025_01_01"
    folder.mkdir(parents=True)
    written(folder / "host.trace.json", device(0), device(1))

    (found,) = discover(tmp_path).files
    assert (found.kind, found.problem) == ("xla_trace", None)
    for _ in range(2):
        job = open_job(tmp_path, cache_dir=tmp_path / "cache", jobs=1)
        assert [(rank.label, rank.rank_source) for rank in job.ranks] == [
            ("0", "order of devices"),
            ("1", "order of devices"),
        ]


def test_streams_are_the_work_of_a_gpu(tmp_path: Path) -> None:
    first, second = read_xla(written(tmp_path / "t.json", gpu(0), gpu(1, 70)))

    assert [trace.source.part_name for trace in (first, second)] == ["GPU 0", "GPU 1"]
    work = second.group("gpu")
    assert [second.text(int(name)) for name in work.name] == [
        *("MemcpyH2D", "gemm_fusion_dot_1", NCCL) * 2,
    ]
    assert [second.text(int(one)) for one in work.category[:3]] == [
        *("gpu_memcpy", "kernel", "kernel"),
    ]
    assert {(t.device, t.stream) for t in second.tracks if t.label.startswith("Stream")} == {
        (1, 13),
        (1, 20),
    }
    assert {second.text(int(one)) for one in second.group("gpu_annotations").name} == {
        "jit_train_step(5)"
    }


@pytest.mark.parametrize("host", ["", "node7 "])
def test_gpus_are_found_by_the_names_of_their_processes(tmp_path: Path, host: str) -> None:
    written(tmp_path / "t.json", *(gpu(number, host=host) for number in range(3)))

    assert [file.kind for file in discover(tmp_path).files] == ["xla_trace"]
    assert len(open_job(tmp_path, cache_dir=None, jobs=1).ranks) == 3


def test_devices_of_two_hosts_in_one_file(tmp_path: Path) -> None:
    one, other = gpu(0, host="a "), [{**event, "pid": 50} for event in gpu(0, 70, host="b ")]

    ranks = read_xla(written(tmp_path / "t.json", one, other))

    assert [rank.source.part_name for rank in ranks] == ["a GPU 0", "b GPU 0"]
    assert [len(rank.group("gpu")) for rank in ranks] == [6, 6]


def test_timelines_of_tensorflow_1_are_no_profiles_of_xla(tmp_path: Path) -> None:
    host = "/job:localhost/replica:0/task:0/device:GPU:0 Compute"
    rows = [label(1, host), label(2, "/device:GPU:0/stream:all Compute")]
    written(tmp_path / "timeline.json", rows)

    assert [file.kind for file in discover(tmp_path).files] == ["other_trace"]


def test_profile_without_operations_is_rejected(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", [label(3, "/device:TPU:0"), label(3, "", 1, "Steps")])

    with pytest.raises(TraceError, match="no row of XLA operations"):
        read_xla(path)


def test_protocol_buffers_are_listed_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(b"\n\x12\x00\xff\xfe\x80")

    (found,) = discover(tmp_path).files

    assert found.kind == "xla_trace"
    assert found.problem is not None
    assert "trace.json.gz" in found.problem
