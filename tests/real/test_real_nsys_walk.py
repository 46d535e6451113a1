"""Every file of the collection of nsys files: opened, or refused with one clear line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ccltui.metrics.nsys_reports.alltoall_delays import exchanges_of_section, study
from ccltui.metrics.nsys_reports.make_report import REPORTS, make_report
from ccltui.metrics.nsys_reports.report import report_of_section
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.job import open_job
from ccltui.parsers.nsys.report_tables import read_report_tables
from ccltui.parsers.nsys.stats_text import read_stats_text

pytestmark = pytest.mark.shared

KINDS: dict[str, int] = {
    "nsys_sqlite": 6,
    "nsys_report": 4,
    "nsys_text": 75,
    "nsys_text_trace": 3,
}


@pytest.fixture(scope="module")
def files(shared: Path) -> tuple[FoundFile, ...]:
    return discover(shared / "nsys").files


def test_every_file_has_a_kind_or_a_sentence_why_not(files: tuple[FoundFile, ...]) -> None:
    kinds = Counter(found.kind for found in files)

    assert {kind: kinds[kind] for kind in KINDS} == KINDS
    others = [found for found in files if found.kind not in KINDS]
    assert {found.kind for found in others} <= {"unknown", "log", "text"}
    for found in others:
        assert found.kind in ("log", "text") or found.problem
        assert "\n" not in (found.problem or "")


def test_every_text_is_read_into_tables_or_says_what_is_absent(
    files: tuple[FoundFile, ...],
) -> None:
    rows = 0
    for found in files:
        if found.format.reports != "text":
            continue
        stats = read_stats_text(Path(found.real_path), shown=found.path)
        for section in stats.sections:
            report = report_of_section(section)
            assert report.columns or report.absent, found.path
            rows += len(report)
    assert rows == 11_486


def test_every_export_is_opened_and_gives_each_report_or_its_reason(
    files: tuple[FoundFile, ...], tmp_path: Path
) -> None:
    for found in files:
        if found.kind != "nsys_sqlite":
            continue
        job = open_job(found.real_path, cache_dir=tmp_path / "cache")
        assert job.failures == ()
        assert job.ranks
        tables = read_report_tables(Path(found.real_path), shown=found.path)
        for name in REPORTS:
            report = make_report(name, tables)
            assert report.columns or report.absent


def test_a_report_without_nsys_is_one_line_that_says_what_to_do(
    files: tuple[FoundFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CCLTUI_NSYS", raising=False)
    reports = [found for found in files if found.kind == "nsys_report"]
    for found in reports:
        job = open_job(found.real_path, cache_dir=tmp_path / "cache")
        (failure,) = job.failures
        assert "a report that only nsys reads" in failure.error
        assert "nsys export -t sqlite" in failure.error
        assert "\n" not in failure.error
    assert len(reports) == 4


def test_the_directory_opens_although_nsys_is_absent(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports and exports of the same captures lie side by side."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CCLTUI_NSYS", raising=False)

    job = open_job(shared / "nsys/paracodex", cache_dir=tmp_path / "cache")

    assert job.ranks
    assert all("\n" not in failure.error for failure in job.failures)


def test_the_published_exchanges(shared: Path) -> None:
    trace = read_stats_text(shared / "nsys/aristos/multi_8x4_1.3B_trace.txt").tables[0]
    total = read_stats_text(shared / "nsys/aristos/multi_8x4_1.3B_sum.txt").tables[0]

    durations = trace.number("Duration").ns()
    assert len(durations) == 2312
    assert int(durations.sum()) == 4_918_341_962
    (row,) = [
        index
        for index, name in enumerate(total.text("Operation").values)
        if name.startswith("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t")
    ]
    assert int(total.number("Total Time").ns()[row]) == 4_918_341_962
    assert int(total.number("Instances").mantissa[row]) == 2312
    delay = study(exchanges_of_section(trace)).summary()["delay"]
    assert {name: round(value or 0) for name, value in delay.items()} == {
        "mean": 278,
        "p50": 186,
        "p95": 643,
        "max": 3221,
    }


def test_indian_groups_and_shares_that_are_not_added_up(shared: Path) -> None:
    stats = read_stats_text(shared / "nsys/gpt2-deepspeed/nsys_stats_gn-0011.txt")
    ranges = stats.find("nvtx_sum")
    assert ranges is not None

    report = report_of_section(ranges)

    share = dict(zip(report.column("Range").values, report.column("Time").values, strict=True))
    total = dict(
        zip(report.column("Range").values, report.column("Total Time").values, strict=True)
    )
    count = dict(zip(report.column("Range").values, report.column("Instances").values, strict=True))
    assert total[":DeepSpeedEngine.backward"] == 2_765_967_562_725
    assert count["NCCL:ncclAllReduce"] == 42_748
    # As nsys counts them: what lies inside another range counts for both.
    assert share[":DeepSpeedEngine.backward"] == 53.9
    assert share[":DeepSpeedEngine.allreduce_gradients"] == 40.8


def test_the_late_device_and_its_time_in_nccl(shared: Path, tmp_path: Path) -> None:
    job = open_job(shared / "nsys/nsys-ai/mfu_2gpu_before.sqlite", cache_dir=tmp_path / "cache")
    totals, counts, starts = [], [], []
    for trace in job.ranks:
        gpu = trace.group("gpu")
        is_nccl = [index for index, text in enumerate(trace.strings) if text.startswith("nccl")]
        rows = [row for row, name in enumerate(gpu.name.tolist()) if name in is_nccl]
        totals.append(int(gpu.dur_ns[rows].sum()))
        counts.append(len(rows))
        starts.append(gpu.start_ns[rows])
    lag = metrics()["straggler_lag"].run(View(job))

    assert totals == [17_172_652, 8_229_100]
    assert counts == [33, 33]
    late = starts[1] - starts[0]
    assert int(late[late > 0].sum()) == 10_898_336  # GPU 0 is there and waits
    assert int((late > 0).sum()) == 22
    assert lag.details["stragglers"] == [1]


def test_a_file_that_is_cut_off_is_one_line(shared: Path, tmp_path: Path) -> None:
    data = (shared / "nsys/ddp53/profiles/ddp53_profile.sqlite").read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(data[: len(data) // 2])

    job = open_job(path, cache_dir=tmp_path / "cache")

    assert job.ranks == ()
    (found,) = job.discovery.files
    assert "malformed" in (found.problem or "")
    with pytest.raises(TraceError, match="malformed"):
        read_report_tables(path)
