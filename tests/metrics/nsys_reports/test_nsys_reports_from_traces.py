"""nsys-style reports of PyTorch traces and of texts."""

from __future__ import annotations

import numpy as np
import pytest

from ccltui.demo import Spec, write_job
from ccltui.metrics.nsys_reports import Report, make_report
from ccltui.metrics.nsys_reports.from_text import report_of_section
from ccltui.metrics.nsys_reports.from_traces import tables_of_traces
from ccltui.parsers.job import open_job
from ccltui.parsers.nsys.report_tables import ReportTables
from ccltui.parsers.nsys.text_reports.stats_text import parse_stats_text


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ReportTables:
    directory = tmp_path_factory.mktemp("job")
    write_job(directory, Spec(tp=1, steps=3, layers=2, gpus_per_node=2, stragglers=()))
    job = open_job(directory, cache_dir=directory / "cache", jobs=1)
    return tables_of_traces(job.ranks, job.origin_ns)


def texts(report: Report, name: str) -> list[str]:
    return list(report.column(name).values)


def test_work_of_all_ranks_is_pooled(tables: ReportTables) -> None:
    trace = make_report("cuda_gpu_trace", tables)
    kernels = make_report("cuda_gpu_kern_sum", tables)
    copies = make_report("cuda_gpu_mem_time_sum", tables)

    counts = np.asarray(kernels.column("Instances").values).sum()
    counts += np.asarray(copies.column("Count").values).sum()
    assert counts == len(trace)
    assert any(name.startswith("ncclDevKernel_") for name in texts(kernels, "Name"))
    assert "[CUDA memcpy Host-to-Device]" in texts(copies, "Operation")
    assert np.asarray(trace.column("Start").values).min() >= 0


def test_calls_and_annotations(tables: ReportTables) -> None:
    calls = make_report("cuda_api_sum", tables)
    steps = make_report("nvtx_sum", tables)
    projected = make_report("nvtx_gpu_proj_sum", tables)

    assert "cudaLaunchKernel" in texts(calls, "Name")
    assert any(name.startswith("ProfilerStep#") for name in texts(steps, "Range"))
    assert set(texts(projected, "Range")) <= set(texts(steps, "Range"))
    assert projected.columns


def test_unrecorded_columns_are_absent_or_blank(tables: ReportTables) -> None:
    registers = make_report("cuda_gpu_trace", tables).column("Reg/Trd").known

    assert registers is not None
    assert not registers.any()
    assert make_report("osrt_sum", tables).absent


def test_no_rank_gives_no_report() -> None:
    assert make_report("cuda_gpu_sum", tables_of_traces([], 0)).absent


def test_a_text_becomes_the_same_columns() -> None:
    text = "Time (%),Total Time (us),Instances,Avg (us),Name\n99.5,1.234,2,0.617,k…\n,,,,\n"

    report = report_of_section(parse_stats_text(text).sections[0])

    total, average = report.column("Total Time"), report.column("Avg")
    assert (total.kind, np.asarray(total.values).tolist()) == ("time", [1234, -1])
    assert (average.kind, np.asarray(average.values).tolist()) == ("mean_time", [617.0, 0.0])
    assert average.known is not None
    assert average.known.tolist() == [True, False]
    assert texts(report, "Name") == ["k…", ""]
    assert report.notes == ("Name: 1 texts are cut off",)


def test_an_absent_section_keeps_its_reason() -> None:
    text = (
        "Exporting [/o/osrtsum.py x.sqlite] to console... SKIPPED: x.sqlite does not contain y.\n"
    )

    report = report_of_section(parse_stats_text(text).sections[0])

    assert (report.name, report.absent) == ("osrt_sum", "the capture does not contain y.")
