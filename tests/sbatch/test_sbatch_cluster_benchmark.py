"""What the cluster benchmark measures without torch, and the file that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from ccltui.parsers.cluster.machine_files import read_cluster_benchmark
from cluster_benchmark import report, storage
from cluster_benchmark.row import GB, Row

ABOUT = report.About(
    timestamp="2026-01-01T10:00:00.000000",
    hostname="node1",
    total_s=12.345,
    job_id="4711",
    device="cuda",
    backend="nccl",
    gpu_name="NVIDIA H200",
    hosts=("node1", "node2"),
    world_size=4,
    versions={"python": "3.11.9", "torch": "2.9.1"},
)
REDUCE = Row(
    "allreduce",
    "Inter-GPU Communication",
    "All-reduce (4 GPUs)",
    None,
    "GB/s",
    GB,
    ranks=4,
    method="bus bandwidth",
)
SORTING = Row("cpu_sorting", "CPU", "Sorting (NumPy)", 70.0, "M elements/s")


def document(*rows: Row) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(report.text_of(ABOUT, rows))
    return found


def test_a_value_is_the_median_of_its_samples() -> None:
    row = REDUCE.measured([200.0, 10.0, 201.0])

    assert (row.value, row.samples) == (200.0, (200.0, 10.0, 201.0))


def test_people_see_one_line_a_test_and_programs_see_every_host() -> None:
    found = document(
        SORTING.on("node1"),
        REDUCE.measured([200.3391]),
        Row("cpu_sorting", "CPU", "Sorting (NumPy)", 80.0, "M elements/s", host="node2"),
    )

    assert found["total_time"] == "12.35 seconds"
    assert list(found["results"].items()) == [
        ("Inter-GPU Communication", {"All-reduce (4 GPUs)": "200.34 GB/s"}),
        ("CPU", {"Sorting (NumPy)": "75.00 M elements/s"}),
    ]
    values = found["machine_readable"]["values"]
    assert [(one["id"], one["value"], one["host"]) for one in values] == [
        ("cpu_sorting", 70.0, "node1"),
        ("allreduce", 200.3391, None),
        ("cpu_sorting", 80.0, "node2"),
    ]
    assert values[1]["unit_bytes"] == 1_000_000_000


def test_what_was_not_measured_says_why_and_what_is_less_says_what() -> None:
    found = document(
        REDUCE.refused("a single rank has nobody to talk to"), SORTING.marked("cpu", "cached")
    )

    assert found["results"]["Inter-GPU Communication"] == {
        "All-reduce (4 GPUs)": "not measured: a single rank has nobody to talk to"
    }
    assert found["results"]["CPU"] == {"Sorting (NumPy)": "70.00 M elements/s [cached, cpu]"}
    assert found["machine_readable"]["values"][0]["value"] is None


def test_the_reader_of_these_files_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "benchmark_4711.yaml"
    rows = (REDUCE.measured([200.0]), SORTING.on("node1"))
    path.write_text(report.text_of(ABOUT, rows))

    read = read_cluster_benchmark(path, shown_path=path.name)

    assert [(value.id, value.value, value.host) for value in read.measurements] == [
        ("allreduce", 200.0, ""),
        ("cpu_sorting", 70.0, "node1"),
    ]
    assert (read.versioned, read.notes) == (True, ())


def plan(folder: Path) -> storage.Plan:
    return storage.Plan(folder, file_bytes=8 << 20, workers=2)


def test_storage_is_measured_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_RANDOM_SECONDS", 0.05)

    rows = storage.measure(plan(tmp_path / "new"))

    assert [row.id for row in rows] == [
        "storage_sequential_write",
        "storage_sequential_read",
        "storage_parallel_write",
        "storage_parallel_read",
        "storage_random_iops",
    ]
    assert all(row.value is not None and row.value > 0 for row in rows)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_read_that_memory_may_have_answered_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.O_DIRECT")
    monkeypatch.setattr(storage, "_RANDOM_SECONDS", 0.01)

    marks = {row.id: row.marks for row in storage.measure(plan(tmp_path))}

    assert marks["storage_sequential_read"] == marks["storage_random_iops"] == ("cached",)
    assert marks["storage_sequential_write"] == ()


def test_hosts_at_once_are_as_fast_as_their_sum_and_as_late_as_the_last(tmp_path: Path) -> None:
    started: list[str] = []
    told: list[float] = []

    def everywhere(seconds: float) -> list[float]:
        told.append(seconds)
        return [0.5, 2.0]

    write, read = storage.measure_together(
        plan(tmp_path), lambda: started.append("ready"), everywhere
    )

    assert (write.value, read.value) == pytest.approx((2 * (8 << 20) / 2.0 / 1e6,) * 2)
    assert write.test == "Write bandwidth"
    assert len(started) == len(told) == 2


def test_a_folder_that_takes_no_files_is_an_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(OSError, match="file"):
        storage.measure(plan(blocked / "below"))


@pytest.mark.parametrize("rows", [(), (SORTING,)])
def test_the_versioned_block_states_its_schema(rows: Sequence[Row]) -> None:
    block = document(*rows)["machine_readable"]

    assert (block["schema"], block["schema_version"]) == ("ccltui.cluster_benchmark", 1)
    assert (block["hosts"], block["nodes"], block["world_size"]) == (["node1", "node2"], 2, 4)
