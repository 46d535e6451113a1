"""Two profiles of which only texts of nsys stats are there, with planted differences."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ccltui.metrics.compare.compare_profiles import (
    ProfileComparison,
    ProfileRow,
    compare_sides,
    side,
)
from ccltui.parsers.errors import NotFoundError
from ccltui.report.diff_writers import PROFILE_WRITERS

Row = tuple[str, int, int, float]  # name, instances, mean in ns, deviation in ns

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096>)"


def report(title: str, last: str, rows: Sequence[Row]) -> str:
    total = sum(count * mean for _, count, mean, _ in rows)
    lines = [f"** {title}:", "", f"Time (%),Total Time (ns),Instances,Avg (ns),StdDev (ns),{last}"]
    lines += [
        f'{100 * count * mean / total:.1f},{count * mean},{count},{mean}.0,{std},"{name}"'
        for name, count, mean, std in rows
    ]
    return "\n".join([*lines, "", ""])


def put(folder: Path, host: str, ranges: Sequence[Row] = (), kernels: Sequence[Row] = ()) -> Path:
    folder.mkdir(exist_ok=True)
    text = report("NVTX Range Summary (nvtx_sum)", "Range", ranges) if ranges else ""
    if kernels:
        text += report("CUDA GPU Kernel Summary (cuda_gpu_kern_sum)", "Name", kernels)
    (folder / f"nsys_stats_{host}.txt").write_text(text)
    return folder


def compared(a: Path, b: Path) -> ProfileComparison:
    found = compare_sides(side(a), side(b), runs_vary_pct=5.0)
    assert isinstance(found, ProfileComparison)
    return found


def test_one_run_a_side_has_no_verdict_and_says_why(tmp_path: Path) -> None:
    a, b = put(tmp_path / "a", "gn-1", BASE), put(tmp_path / "b", "gn-2", TUNED)

    found = compare_sides(side(a), side(b))

    assert isinstance(found, ProfileComparison)
    assert {one.verdict for one in found.rows} <= {"not distinguishable", ""}
    assert row(found, ":DeepSpeedEngine.allreduce_gradients").change_pct == -75.0
    for name in ("table", "md", "json"):
        assert "one run a side, so the spread" in PROFILE_WRITERS[name](found).decode()


def counted(folder: Path) -> tuple[int, float | None]:
    """All-reduces of a folder of texts compared with itself, and those of a backward pass."""
    found = compared(folder, folder)
    calls, nccl = row(found, "NCCL:ncclAllReduce").a, found.a.nccl
    assert calls is not None
    assert nccl is not None
    assert nccl.instances["AllReduce"] == calls.count
    return calls.count, nccl.per_backward("AllReduce")


def test_two_texts_of_one_report_count_once(tmp_path: Path) -> None:
    """A copy, the report in another unit, and one with fewer rows, beside that of another host."""
    folder = put(tmp_path / "a", "gn-1", BASE)
    text = (folder / "nsys_stats_gn-1.txt").read_text()
    (folder / "nsys_stats_gn-1_copy.txt").write_text(text)
    lines = text.splitlines()
    (folder / "nsys_stats_first.txt").write_text("\n".join(lines[:5]) + "\n")

    assert counted(folder) == (300, 3.0)
    (left, *_) = [one for one in compared(folder, folder).unknown if "of A is not counted" in one]
    assert "it prints " in left

    other = tuple((name, count, mean + 7, std) for name, count, mean, std in BASE)
    put(folder, "gn-2", other)
    assert counted(folder) == (600, 3.0)


@pytest.mark.parametrize("same_rows", [True, False])
def test_recordings_of_one_name_are_told_apart_by_their_rows(
    tmp_path: Path, same_rows: bool
) -> None:
    """Each node records into /tmp/report1; one node's may be printed in two formats."""
    banner = "Processing [/tmp/report1.sqlite] with [nvtx_sum.py]...\n"
    rows = BASE if same_rows else tuple((n, c, mean + 1, s) for n, c, mean, s in BASE)
    folder = put(tmp_path / "a", "gn-1", BASE)
    put(folder, "gn-2", rows)
    for path in folder.iterdir():
        path.write_text(banner + path.read_text())

    assert counted(folder)[0] == (300 if same_rows else 600)


def test_all_recordings_of_one_text_count(tmp_path: Path) -> None:
    other = tuple((name, count, mean + 7, std) for name, count, mean, std in BASE)
    folder = put(tmp_path / "a", "both", BASE)
    path = folder / "nsys_stats_both.txt"
    path.write_text(path.read_text() + report("NVTX Range Summary (nvtx_sum)", "Range", other))

    assert counted(folder) == (600, 3.0)


def test_a_real_report_that_is_there_twice_counts_once(tmp_path: Path, shared: Path) -> None:
    real = (shared / "nsys/gpt2-deepspeed/nsys_stats_gn-0011.txt").read_bytes()
    folder = tmp_path / "baseline_2026-01-26"
    folder.mkdir()
    for name in ("nsys_stats_gn-0011.txt", "baseline_nvtx.txt"):
        (folder / name).write_bytes(real)
    without_banners = b"\n".join(
        line for line in real.split(b"\n") if not line.startswith((b"Processing", b"Generating"))
    )
    (folder / "again.txt").write_bytes(without_banners)

    found = compared(folder, folder)

    calls = row(found, "NCCL:ncclAllReduce").a
    assert calls is not None
    assert calls.count == 42_748
    assert found.a.nccl is not None
    assert found.a.nccl.instances["AllReduce"] == 42_748


def row(found: ProfileComparison, name: str) -> ProfileRow:
    (one,) = [one for one in found.rows if one.name == name]
    return one


BASE = (
    (":DeepSpeedEngine.backward", 100, 600_000, 10_000.0),
    (":DeepSpeedEngine.allreduce_gradients", 100, 400_000, 10_000.0),
    ("NCCL:ncclAllReduce", 300, 1_000, 10.0),
)
TUNED = (
    (":DeepSpeedEngine.backward", 40, 590_000, 10_000.0),
    (":DeepSpeedEngine.allreduce_gradients", 40, 100_000, 10_000.0),
    ("NCCL:ncclAllReduce", 65, 1_000, 10.0),
)
KERNELS = ((ALLREDUCE, 300, 90_000, 100.0), ("gemm", 1000, 3_000, 10.0))


@pytest.fixture
def pair(tmp_path: Path) -> ProfileComparison:
    kernels = ((ALLREDUCE, 65, 180_000, 100.0), ("gemm", 400, 3_050, 10.0), ("new", 4, 5, 1.0))
    a = put(tmp_path / "base", "n1", BASE, KERNELS)
    return compared(a, put(tmp_path / "tuned", "n3", TUNED, kernels))


def test_bottlenecks_and_times_of_a_call(pair: ProfileComparison) -> None:
    gradients = row(pair, ":DeepSpeedEngine.allreduce_gradients")

    assert pair.a.bottleneck == (
        "longest range :DeepSpeedEngine.backward (59.8 % of the time in ranges), collectives "
        "90.0 % of kernel time"
    )
    assert gradients.a is not None
    assert gradients.b is not None
    assert (gradients.a.count, gradients.a.mean_ns) == (100, 400_000)
    assert gradients.a.share == pytest.approx(100 * 40_000_000 / 100_300_000)
    assert gradients.verdict == "better"
    assert gradients.change_pct == pytest.approx(-75)
    assert row(pair, ":DeepSpeedEngine.backward").verdict == "not distinguishable"


def test_kernels_of_both_and_of_one(pair: ProfileComparison) -> None:
    assert row(pair, ALLREDUCE).verdict == "worse"
    assert row(pair, ALLREDUCE).change_pct == pytest.approx(100)
    assert row(pair, "gemm").verdict == "not distinguishable"
    assert (row(pair, "new").a, row(pair, "new").verdict) == (None, "")


def test_calls_per_backward_pass_do_not_depend_on_the_length(pair: ProfileComparison) -> None:
    assert pair.a.nccl is not None
    assert pair.b.nccl is not None
    assert pair.a.nccl.per_backward("AllReduce") == 3.0
    assert pair.b.nccl.per_backward("AllReduce") == 1.625


def test_what_cannot_be_told_is_listed(pair: ProfileComparison, tmp_path: Path) -> None:
    bare = compared(tmp_path / "base", put(tmp_path / "bare", "n9", BASE))

    assert any(text.startswith("throughput") for text in pair.unknown)
    assert any("(A has 100 backward passes, B 40)" in text for text in pair.unknown)
    assert not any("no such table" in text for text in pair.unknown)
    assert "kernels (cuda_gpu_kern_sum) of B: no such table" in bare.unknown
    assert any(
        "A has the text of nsys_stats_n1.txt, B of nsys_stats_n3.txt" in text
        for text in pair.unknown
    )


def test_texts_of_several_hosts_are_added_up(tmp_path: Path) -> None:
    a = put(tmp_path / "a", "n1", kernels=[("gemm", 10, 100, 0.0)])
    put(a, "n2", kernels=[("gemm", 30, 300, 0.0)])
    b = put(tmp_path / "b", "n1", kernels=[("gemm", 1, 250, 0.0)])

    one = row(compared(a, b), "gemm").a

    assert one is not None
    assert (one.count, one.total_ns, one.share) == (40, 10_000, 100.0)
    # Ten values of 100 and thirty of 300: the sample deviation of all forty.
    assert one.std_ns == pytest.approx((40 * 7500 / 39) ** 0.5)


def test_a_difference_inside_the_scatter_is_none(tmp_path: Path) -> None:
    a = put(tmp_path / "a", "n", kernels=[("gemm", 4, 1000, 500.0)])
    b = put(tmp_path / "b", "n", kernels=[("gemm", 4, 1300, 500.0)])

    assert row(compared(a, b), "gemm").verdict == "not distinguishable"


def test_names_that_are_cut_get_no_verdict(tmp_path: Path) -> None:
    a = put(tmp_path / "a", "n", kernels=[("void gemm<(…", 4, 1000, 1.0)])
    b = put(tmp_path / "b", "n", kernels=[("void gemm<(…", 4, 5000, 1.0)])

    found = compared(a, b)

    assert found.rows[0].verdict == ""
    assert "the name is cut" in PROFILE_WRITERS["table"](found).decode()
    assert any("(1 and 1 are cut)" in text for text in found.unknown)


def test_every_format(pair: ProfileComparison) -> None:
    table = PROFILE_WRITERS["table"](pair).decode()
    rows = list(csv.DictReader(io.StringIO(PROFILE_WRITERS["csv"](pair).decode())))
    document = json.loads(PROFILE_WRITERS["json"](pair))

    assert "AllReduce                3.00  1.62" in table
    assert "Not in these texts:\n- throughput" in table
    assert [one["name"] for one in rows] == [one.name for one in pair.rows]
    assert rows[0]["verdict"] == pair.rows[0].verdict
    assert document["calls_per_backward"]["AllReduce"] == {"a": 3.0, "b": 1.625}
    assert document["verdict"] is None
    assert document["unknown"] == list(pair.unknown)


def test_a_profile_against_nothing_of_the_kind_is_one_line(tmp_path: Path) -> None:
    a = put(tmp_path / "a", "n", BASE)
    (tmp_path / "c").mkdir()
    text = "hostname: a\ntotal_time: 1.00 seconds\nresults:\n  CPU:\n    Compression: 5.00 MB/s\n"
    (tmp_path / "c" / "benchmark_1.yaml").write_text(text)
    (tmp_path / "empty").mkdir()

    with pytest.raises(NotFoundError, match="B is a cluster benchmark"):
        compare_sides(side(a), side(tmp_path / "c"), runs_vary_pct=5.0)
    with pytest.raises(NotFoundError, match="no text of nsys stats here"):
        side(tmp_path / "empty")


def test_two_real_profiles(shared: Path, tmp_path: Path) -> None:
    real = shared / "nsys/gpt2-deepspeed/nsys_stats_gn-0011.txt"

    found = compared(real, real)

    gradients = row(found, ":DeepSpeedEngine.allreduce_gradients")
    assert gradients.a == gradients.b
    assert gradients.a is not None
    assert gradients.a.share == pytest.approx(40.8, abs=0.05)
    assert found.a.nccl is not None
    assert found.a.nccl.per_backward("AllReduce") == pytest.approx(42748 / 14244)
    assert {one.verdict for one in found.rows} <= {"not distinguishable", ""}
