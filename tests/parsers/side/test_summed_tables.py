"""Totals that rocprof and nvprof print: read by kind, and what is said of them first."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.parsers.errors import TraceError
from ccltui.parsers.side.printed_tables import SummedRows, read_summed

KERNELS = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"
"rccl_main_kernel(ncclDevComm*, unsigned long)",30,600000000,20000000.0,60.00,9000,50000000,1.0
"void gemm<float, 4>(float*, int)",90,300000000,3333333.3,30.00,1000,9000000,1.0
"fill.kd",5,100000000,20000000.0,10.00,1000,30000000,1.0
"""
CALLS = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage"
hipStreamSynchronize,40,750000000,18750000,75.0
__hipPushCallConfiguration,200,250000000,1250000,25.0
"""
DOMAINS = """\
"Name","Calls","TotalDurationNs","AverageNs","Percentage"
KERNEL_DISPATCH,125,1000000000,8000000,50.0
HIP_API,240,1000000000,4166666,50.0
"""
NVPROF = """\
loss 3.5
==71== Profiling application: ./train
==71== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.00000s    600000  5.0000us  4.0000us  9.0000us  [CUDA memcpy HtoD]
                   25.00%  1.00000s       100  10.000ms  9.0000ms  11.000ms  update(float*, int)
      API calls:   80.00%  4.00000s    600000  6.6660us  3.0000us  8.0000ms  cudaMemcpy
                   20.00%  1.00000s       100  10.000ms  1.0000us  99.000ms  cudaLaunchKernel
"""
OLD_NVPROF = """\
==8== Profiling result:
Time(%)      Time     Calls       Avg       Min       Max  Name
 90.00%  900.00ms        10  90.000ms  80.000ms  99.000ms  step(double*)
 10.00%  100.00ms         2  50.000ms  40.000ms  60.000ms  [CUDA memcpy DtoH]

==8== API calls:
Time(%)      Time     Calls       Avg       Min       Max  Name
100.00%  500.00us         5  100.00us  90.000us  110.00us  cudaFree
"""


def read(folder: Path, text: str, name: str = "out.txt") -> dict[str, SummedRows]:
    (folder / name).write_text(text, encoding="utf-8")
    return {rows.what: rows for rows in read_summed(folder / name, shown=name)}


def told(folder: Path, **files: str) -> list[str]:
    """First and second sentence of each finding on files."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return [f"{one.text} {one.more}".strip() for one in answer_of(view_of(folder)).findings]


def test_kernels_and_calls_of_rocprof(tmp_path: Path) -> None:
    (kernels,) = read(tmp_path, KERNELS).values()
    (calls,) = read(tmp_path, CALLS).values()

    assert (kernels.what, kernels.total_ns) == ("kernels", (600000000, 300000000, 100000000))
    assert (kernels.names[2], kernels.calls) == ("fill", (30, 90, 5))
    assert kernels.share == pytest.approx(1.0)
    assert (calls.what, calls.calls) == ("calls", (40, 200))


def test_domains_are_not_added_to_what_they_sum_up(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no row"):
        read(tmp_path, DOMAINS)


@pytest.mark.parametrize("text", [NVPROF, OLD_NVPROF])
def test_nvprof_has_work_and_calls(tmp_path: Path, text: str) -> None:
    tables = read(tmp_path, text)

    assert set(tables) == {"kernels", "calls"}
    assert len(tables["kernels"].names) == 2


def test_processes_that_nvprof_profiled_are_added_up(tmp_path: Path) -> None:
    tables = read(tmp_path, NVPROF + NVPROF.replace("==71==", "==72=="))

    assert tables["kernels"].names == ("[CUDA memcpy HtoD]", "update(float*, int)")
    assert tables["kernels"].total_ns == (6_000_000_000, 2_000_000_000)
    assert tables["calls"].calls == (1_200_000, 200)


def test_what_is_said_of_rocprof(tmp_path: Path) -> None:
    files = {
        "p1_kernel_stats__csv": KERNELS,
        "p1_hip_api_stats__csv": CALLS,
        "p1_domain_stats__csv": DOMAINS,
    }

    assert told(tmp_path, **files) == [
        "The kernel rccl_main_kernel takes 60.0 % of 1 s of kernel time. Largest kernels: "
        "rccl_main_kernel 60.0 %; gemm 30.0 %; fill 10.0 %; communication 60 % (30 kernels of any "
        "operation); such a kernel also waits for the other ranks.",
        "The call hipStreamSynchronize takes 75.0 % of the host's time in ROCm calls, 1 s in all. "
        "Largest calls: hipStreamSynchronize 75.0 %; __hipPushCallConfiguration 25.0 %.",
    ]
    assert "rocprofv3" in answer_of(view_of(tmp_path)).findings[0].do


def test_shares_of_a_table_that_was_cut(tmp_path: Path) -> None:
    text = KERNELS.rpartition('"fill')[0]

    assert told(tmp_path, k_kernel_stats__csv=text)[0].startswith(
        "The kernel rccl_main_kernel takes 60.0 % of 1 s of kernel time."
    )


def test_a_row_that_was_cut_off_is_not_counted(tmp_path: Path) -> None:
    text = KERNELS[: KERNELS.index("3333333.3")]

    (kernels,) = read(tmp_path, text).values()

    assert len(kernels.names) == 1
    assert kernels.share == pytest.approx(0.6)


def test_what_is_said_of_nvprof(tmp_path: Path) -> None:
    assert told(tmp_path, run__txt=NVPROF) == [
        "The copy [CUDA memcpy HtoD] takes 75.0 % of 4 s of device time. 600,000 calls of 5 us "
        "each; largest rows: [CUDA memcpy HtoD] 75.0 %; update 25.0 %.",
        "The call cudaMemcpy takes 80.0 % of the host's time in CUDA calls, 5 s in all. Largest "
        "calls: cudaMemcpy 80.0 %; cudaLaunchKernel 20.0 %.",
    ]
