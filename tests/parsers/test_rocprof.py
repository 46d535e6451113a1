"""Tables of rocprofv3 in csv, of several releases, as ranks."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.job import open_job
from ccltui.parsers.rocm import kernel_name
from ccltui.parsers.rocm.kernel_trace import read_kernel_trace

BASE = 8_819_330_200_000_000
OLD = (
    *("Kind", "Agent_Id", "Queue_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name"),
    *("Correlation_Id", "Start_Timestamp", "End_Timestamp", "Private_Segment_Size"),
    *(f"Workgroup_Size_{axis}" for axis in "XYZ"),
    *(f"Grid_Size_{axis}" for axis in "XYZ"),
)
NEW = (*OLD[:3], "Stream_Id", *OLD[3:10], "LDS_Block_Size", "VGPR_Count", *OLD[11:])
GUID = ("Guid", *NEW)
SHUFFLED = tuple(reversed(NEW))
ALL_REDUCE = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"


def table(columns: Sequence[str], rows: Sequence[dict[str, object]], *, quoted: bool = True) -> str:
    text = io.StringIO()
    writer = csv.writer(
        text,
        quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    )
    writer.writerow(columns)
    writer.writerows([[row.get(name, 0) for name in columns] for row in rows])
    return text.getvalue()


def kernels(agent: object = 4, late_ns: int = 0, steps: int = 5) -> list[dict[str, object]]:
    """Two products and an all-reduce a step; the all-reduce ends when the latest began it."""
    rows: list[dict[str, object]] = []
    for step in range(steps):
        begin = BASE + step * 5_000_000
        spans = (
            ("Cijk_Ailk_MT128", begin, begin + 350_000),
            ("Cijk_Ailk_MT64.kd", begin + 400_000, begin + 700_000),
            (ALL_REDUCE, begin + 1_000_000 + late_ns, begin + 2_500_000),
        )
        for name, start, end in spans:
            rows.append(
                {
                    "Kind": "KERNEL_DISPATCH", "Agent_Id": agent, "Queue_Id": 1, "Stream_Id": 2,
                    "Thread_Id": 900, "Kernel_Name": name, "Correlation_Id": len(rows) + 1,
                    "Start_Timestamp": start, "End_Timestamp": end, "Guid": "a-b",
                    **{f"Workgroup_Size_{axis}": 256 if axis == "X" else 1 for axis in "XYZ"},
                    **{f"Grid_Size_{axis}": 1024 if axis == "X" else 1 for axis in "XYZ"},
                }
            )  # fmt: skip
    return rows


def read(path: Path, text: str | bytes) -> list[RankTrace]:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(data)
    return list(read_kernel_trace(path, shown=path.name))


@pytest.mark.parametrize("columns", [OLD, NEW, GUID, SHUFFLED], ids=["old", "new", "guid", "any"])
@pytest.mark.parametrize("quoted", [True, False])
@pytest.mark.parametrize("agent", [4, "Agent 4"])
def test_columns_are_found_by_their_names(
    tmp_path: Path, columns: Sequence[str], quoted: bool, agent: object
) -> None:
    (rank,) = read(
        tmp_path / "5000_kernel_trace.csv", table(columns, kernels(agent), quoted=quoted)
    )

    gpu = rank.group("gpu")
    assert len(gpu) == 15
    assert [rank.text(name) for name in gpu.name[:3]] == [
        "Cijk_Ailk_MT128",
        "Cijk_Ailk_MT64",
        ALL_REDUCE,
    ]
    assert gpu.dur_ns[:3].tolist() == [350_000, 300_000, 1_500_000]
    assert [track.stream for track in rank.tracks if track.kind == "stream"] == [
        1 if columns is OLD else 2
    ]
    (file,) = discover(tmp_path).files
    assert file.kind == "rocprof_trace"


def test_each_agent_of_a_process_is_a_rank(tmp_path: Path) -> None:
    ranks = read(tmp_path / "5000_kernel_trace.csv", table(OLD, [*kernels(4), *kernels(5)]))

    assert [len(rank.group("gpu")) for rank in ranks] == [15, 15]


def test_a_compressed_table(tmp_path: Path) -> None:
    data = gzip.compress(table(NEW, kernels()).encode())

    (rank,) = read(tmp_path / "5000_kernel_trace.csv", data)

    assert len(rank.group("gpu")) == 15


def test_impossible_rows_are_counted(tmp_path: Path) -> None:
    rows = kernels()
    rows[0]["End_Timestamp"] = 5
    rows[1]["Start_Timestamp"] = 0
    rows[2]["Kernel_Name"] = ""
    rows[3]["Agent_Id"] = "x"
    text = table(OLD, rows) + '"KERNEL_DISPATCH",4,1\n'

    (rank,) = read(tmp_path / "5000_kernel_trace.csv", text)

    assert len(rank.group("gpu")) == 11
    assert [note.count for note in rank.notes if note.code == "rocprof_rows_dropped"] == [5]


def test_calls_copies_and_markers_beside_it(tmp_path: Path) -> None:
    calls = [
        {"Domain": "HIP_RUNTIME_API", "Function": "hipLaunchKernel", "Process_Id": 5000,
         "Thread_Id": 900, "Correlation_Id": number + 1,
         "Start_Timestamp": int(str(row["Start_Timestamp"])) - 9000,
         "End_Timestamp": int(str(row["Start_Timestamp"])) - 2000}
        for number, row in enumerate(kernels())
    ]  # fmt: skip
    columns = (*("Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id"),
               "Start_Timestamp", "End_Timestamp")  # fmt: skip
    (tmp_path / "5000_hip_api_trace.csv").write_text(table(columns, calls))
    marks = [
        {"Domain": "MARKER_CORE_API", "Function": f"step {step}", "Thread_Id": 900,
         "Start_Timestamp": begin, "End_Timestamp": begin + 4_000_000}
        for step in range(5)
        for begin in [BASE + step * 5_000_000]
    ]  # fmt: skip
    (tmp_path / "5000_marker_api_trace.csv").write_text(table(columns, marks))
    copies = ("Kind", "Direction", "Source_Agent_Id", "Destination_Agent_Id", "Correlation_Id",
              "Start_Timestamp", "End_Timestamp")  # fmt: skip
    copied = [{"Direction": "MEMORY_COPY_HOST_TO_DEVICE", "Source_Agent_Id": 0,
               "Destination_Agent_Id": 4, "Start_Timestamp": BASE + 710_000,
               "End_Timestamp": BASE + 800_000}]  # fmt: skip
    (tmp_path / "5000_memory_copy_trace.csv").write_text(table(copies, copied))

    (rank,) = read(tmp_path / "5000_kernel_trace.csv", table(NEW, kernels()))

    assert len(rank.group("gpu")) == 16
    assert "[CUDA memcpy Host-to-Device]" in set(rank.strings)
    assert len(rank.group("runtime")) == 15
    assert {f"step {step}" for step in range(5)} <= set(rank.strings)
    kinds = sorted(file.kind for file in discover(tmp_path).files)
    assert kinds == ["rocprof_table"] * 3 + ["rocprof_trace"]


BEFORE_3 = (
    *("Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr"),
    *("lds", "scr", "sig", "obj", "DispatchNs", "BeginNs", "EndNs", "CompleteNs", "DurationNs"),
)


def before_3(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Rows as rocprof names their columns before version 3."""
    names = {
        **{"KernelName": "Kernel_Name", "gpu-id": "Agent_Id", "queue-id": "Queue_Id"},
        **{"BeginNs": "Start_Timestamp", "EndNs": "End_Timestamp", "tid": "Thread_Id"},
        **{"grd": "Grid_Size_X", "wgr": "Workgroup_Size_X"},
    }
    return [{"pid": 77, **{old: row[new] for old, new in names.items()}} for row in rows]


def test_kernels_of_rocprof_before_version_3(tmp_path: Path) -> None:
    both = [*before_3(kernels(2)), *before_3(kernels(3))]
    ranks = read(tmp_path / "results.csv", table(BEFORE_3, both))

    assert [file.kind for file in discover(tmp_path).files] == ["rocprof_trace"]
    assert [len(rank.group("gpu")) for rank in ranks] == [15, 15]
    gpu = ranks[0].group("gpu")
    assert (gpu.dur_ns[:3].tolist(), gpu.start_ns[1] - gpu.start_ns[0]) == (
        [350_000, 300_000, 1_500_000],
        400_000,
    )


def test_counters_of_rocprof_have_no_times(tmp_path: Path) -> None:
    columns = (*BEFORE_3[:13], "TCC_HIT_sum")
    (tmp_path / "counters.csv").write_text(table(columns, before_3(kernels())))

    assert [file.kind for file in discover(tmp_path).files] == ["rocprof_table"]


@pytest.mark.parametrize("late", [0, 1])
def test_the_process_that_comes_late(tmp_path: Path, late: int) -> None:
    for place, process in enumerate((5000, 5001)):
        folder = tmp_path / "node"
        folder.mkdir(exist_ok=True)
        rows = kernels(4 + place, 500_000 if place == late else 0, 10)
        (folder / f"{process}_kernel_trace.csv").write_text(table(OLD, rows))

    job = open_job(tmp_path, cache_dir=None)
    result = find("straggler_lag").run(View(job))

    assert [(trace.rank, trace.source.path) for trace in job.ranks] == [
        (0, "node/5000_kernel_trace.csv"),
        (1, "node/5001_kernel_trace.csv"),
    ]
    assert {trace.rank_source for trace in job.ranks} == {"order of processes"}
    assert result.value == pytest.approx(500)
    assert result.details["num_collectives"] == 10
    assert result.details["worst_straggler"] == late
    assert any("numbered in the order of their processes" in text for text in result.warnings)


@pytest.mark.parametrize(
    "text",
    ["", "Kind,Agent_Id\n", table(OLD, []), table(OLD, [{"Kernel_Name": "x"}]), "\x00\x01", '"a\n'],
)
def test_other_texts_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(tmp_path / "1_kernel_trace.csv", text)

    assert "\n" not in str(caught.value)


def test_marks_of_descriptors_are_no_part_of_a_name() -> None:
    assert [kernel_name(f"k(int){end}") for end in ("", ".kd", " [clone .kd]")] == ["k(int)"] * 3
