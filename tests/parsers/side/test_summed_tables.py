"""Totals that rocprof and nvprof print: read by kind, and what is said of them first."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Answer
from ccltui.metrics.findings.recordings import printed_tables
from ccltui.parsers.errors import TraceError
from ccltui.parsers.side.printed_tables import (
    SummedRows,
    SummedTables,
    nvprof_tables,
    read_rocprof,
)
from ccltui.parsers.text.file_sample import read_bounded

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


CANNOT = (
    "Totals do not show when anything ran, so waiting, overlap and single steps cannot be seen."
)
HEADER = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'


def tables_of(folder: Path, text: str, *, head_bytes: int = 1 << 24) -> SummedTables:
    """Read a text as one of nvprof where it begins as such, else as one of rocprof."""
    path = folder / "out.txt"
    path.write_text(text, encoding="utf-8")
    if "Name," in text or '"Name"' in text:
        return read_rocprof(path, shown="out.txt")
    return nvprof_tables(read_bounded(path, shown="out.txt", head_bytes=head_bytes, tail_bytes=99))


def read(folder: Path, text: str) -> dict[str, SummedRows]:
    return {rows.what: rows for rows in tables_of(folder, text).tables}


def answered(folder: Path, **files: str) -> Answer:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return answer_of(view_of(folder))


def told(folder: Path, *unknown: str, **files: str) -> list[str]:
    """First and second sentence of each finding on files; what cannot be known is as stated."""
    answer = answered(folder, **files)
    assert answer.unknown == (CANNOT, *unknown)
    return [f"{one.text} {one.more}".strip() for one in answer.findings]


def test_kernels_and_calls_of_rocprof(tmp_path: Path) -> None:
    (kernels,) = read(tmp_path, KERNELS).values()
    (calls,) = read(tmp_path, CALLS).values()

    assert (kernels.what, kernels.total_ns) == ("kernels", (600000000, 300000000, 100000000))
    assert (kernels.names[2], kernels.calls) == ("fill", (30, 90, 5))
    assert kernels.share == pytest.approx(1.0)
    assert (calls.what, calls.calls) == ("calls", (40, 200))


def test_domains_are_not_added_to_what_they_sum_up(tmp_path: Path) -> None:
    assert tables_of(tmp_path, DOMAINS) == SummedTables()
    assert tables_of(tmp_path, HEADER) == SummedTables()


@pytest.mark.parametrize(
    "name", ["MEMORY_COPY_HOST_TO_DEVICE", "DEVICE_TO_HOST", "CopyHostToDevice", "HIP_RUNTIME_API"]
)
def test_sums_of_other_tables_are_known_by_their_names(tmp_path: Path, name: str) -> None:
    assert tables_of(tmp_path, f"{HEADER}{name},1,1000,1000,100.0\n") == SummedTables()


def test_a_kernel_in_capitals_is_a_kernel(tmp_path: Path) -> None:
    (kernels,) = read(tmp_path, f"{HEADER}GEMM,1,900,900,90.0\nk2,1,100,100,10.0\n").values()

    assert kernels.names == ("GEMM", "k2")


def test_a_table_of_which_nothing_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no row of it has a name and a time"):
        read(tmp_path, f"{HEADER}k,1,soon,1,1\n")


def test_a_time_that_is_no_number_is_not_zero(tmp_path: Path) -> None:
    rows = "big,1,1.5E+09,1,60.0\nodd,1,1.5F+09,1,30.0\nsmall,1,2.5e8,1,10.0\n"

    (kernels,) = read(tmp_path, HEADER + rows).values()

    assert kernels.names == ("big", "small")
    assert kernels.total_ns == (1_500_000_000, 250_000_000)
    assert kernels.share == pytest.approx(0.7)


def test_shares_that_are_missing_say_nothing(tmp_path: Path) -> None:
    (kernels,) = read(tmp_path, f"{HEADER}k,1,900,900,90.0\nk2,1,100,100,\n").values()

    assert kernels.share == 0.0


@pytest.mark.parametrize("symbol", ["k(int).kd", "k(int) [clone .kd]", "k(int)"])
def test_marks_of_descriptors_are_no_part_of_a_name(tmp_path: Path, symbol: str) -> None:
    (kernels,) = read(tmp_path, f'{HEADER}"{symbol}",1,900,900,100.0\n').values()

    assert kernels.names == ("k(int)",)


def test_rows_beyond_the_most_that_are_read_are_stated(tmp_path: Path) -> None:
    found = tables_of(tmp_path, "Name,Calls,TotalDurationNs\n" + "a,1,1\n" * 30_000)

    assert len(found.tables[0].names) == 20_000
    assert found.notes == ("only its first 20,000 rows are read",)


def row_of_nvprof(name: str) -> str:
    return f"  10.00%  1.0000ms  1  1.0000ms  1.0000ms  1.0000ms  {name}\n"


def test_names_beyond_the_most_that_are_counted_are_stated(tmp_path: Path) -> None:
    names = (f"k{number}" for number in range(20_010))

    found = tables_of(tmp_path, OLD_NVPROF + "".join(map(row_of_nvprof, names)))

    calls = found.tables[1]
    assert (calls.what, len(calls.names)) == ("calls", 20_000)
    assert found.notes == ("only its first 20,000 names are counted, 11 rows are not",)


def test_lines_beyond_the_most_that_are_read_are_stated(tmp_path: Path) -> None:
    found = tables_of(tmp_path, OLD_NVPROF + "API calls:\n" * 400_001)

    assert [rows.what for rows in found.tables] == ["kernels", "calls"]
    assert found.notes == ("only the first 400,000 lines of its tables are read",)


def test_a_row_of_nvprof_with_a_long_name_is_counted(tmp_path: Path) -> None:
    found = read(tmp_path, OLD_NVPROF + row_of_nvprof("f" * 9000))

    assert found["calls"].total_ns == (500_000, 1_000_000)
    assert found["calls"].names[1] == "f" * 4000


def test_the_middle_of_a_long_text_that_is_not_read_is_stated(tmp_path: Path) -> None:
    found = tables_of(tmp_path, NVPROF + "a line\n" * 1000, head_bytes=len(NVPROF) + 10)

    assert len(found.tables) == 2
    assert "in the middle are not read" in found.notes[0]


def test_sums_that_cannot_be_true_are_not_counted(tmp_path: Path) -> None:
    long = OLD_NVPROF.replace("900.00ms", "999999999999s")

    found = tables_of(tmp_path, long)

    assert [rows.what for rows in found.tables] == ["calls"]
    assert found.notes == ("sums are too large to be true: its kernels are not counted",)
    with pytest.raises(TraceError, match="too large"):
        read(tmp_path, HEADER + "k,1,4000000000000000000,1,50\n" * 2)


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

    cut = "The text leaves out some rows; its shares are of all rows."

    assert told(tmp_path, cut, k_kernel_stats__csv=text)[0].startswith(
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


def test_what_was_not_read_of_nvprof_is_stated(tmp_path: Path) -> None:
    rows = "".join(row_of_nvprof(f"k{number}") for number in range(20_001))

    told(
        tmp_path,
        "Not all of run.txt is counted: only its first 20,000 names are counted, 2 rows are not.",
        run__txt=OLD_NVPROF + rows,
    )


def test_files_beyond_the_most_that_are_read_are_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed_tables, "_MOST_SUMMED_BYTES", len(KERNELS) + 1)

    told(
        tmp_path,
        "1 of 2 files with totals of rocprof is not read: together they are too large.",
        a_kernel_stats__csv=KERNELS,
        b_kernel_stats__csv=KERNELS.replace("30,600000000", "31,600000000"),
    )


@pytest.mark.parametrize("text", [DOMAINS, HEADER])
def test_tables_that_list_nothing_are_no_failure(tmp_path: Path, text: str) -> None:
    (found,) = answered(tmp_path, results__stats__csv=text).findings

    assert found.text == "No kernel, call or range is listed by name in results.stats.csv."
    assert "rocprofv3" in found.do


def test_a_table_of_rocprof_that_cannot_be_read(tmp_path: Path) -> None:
    (found,) = answered(tmp_path, results__stats__csv=f"{HEADER}k,1,soon,1,1\n").findings

    assert found.text.startswith("The text of rocprof cannot be read: results.stats.csv")
    assert "rocprofv3" in found.do
    assert "nsys" not in found.do


def test_tables_of_one_recording_of_rocprof_are_described_together(tmp_path: Path) -> None:
    files = {
        "results__copy_stats__csv": f"{HEADER}CopyHostToDevice,1,9000,9000,100.0\n",
        "results__hip_stats__csv": CALLS,
        "results__stats__csv": KERNELS,
    }

    first, second = told(tmp_path, **files)

    assert first.startswith("The kernel rccl_main_kernel")
    assert second.startswith("The call hipStreamSynchronize")


STEPS = "".join(
    f"step {number}/100 | loss {9 - number / 10:.2f} | step time (ms): 500.0\n"
    for number in range(1, 21)
)
FAILED = "[rank1]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def kinds(answer: Answer) -> list[str]:
    return [one.kind for one in answer.findings]


def test_a_log_with_a_table_keeps_what_it_states(tmp_path: Path) -> None:
    alone, both = tmp_path / "alone", tmp_path / "both"
    alone.mkdir()
    both.mkdir()
    log = answered(alone, train__log=STEPS + FAILED)
    answer = answered(both, train__log=STEPS + FAILED + NVPROF)

    assert kinds(log)[0] == "failure"
    assert kinds(answer) == ["failure", "kernel_totals", "kernel_totals", *kinds(log)[1:]]
    assert len(kinds(log)) > 1
    assert CANNOT in answer.unknown


def test_a_failure_is_found_in_a_text_that_is_mostly_a_table(tmp_path: Path) -> None:
    answer = answered(tmp_path, run__txt=FAILED + NVPROF)

    assert kinds(answer) == ["failure", "kernel_totals", "kernel_totals"]


def test_a_log_beside_a_table_that_lists_nothing_is_described(tmp_path: Path) -> None:
    answer = answered(tmp_path, train__log=STEPS, p1_domain_stats__csv=DOMAINS)

    assert "nothing" not in kinds(answer)
    assert answer.recording == "logs"


def test_what_is_known_comes_before_what_cannot_be_read(tmp_path: Path) -> None:
    broken = f"{HEADER}k,1,soon,1,1\n"

    answer = answered(tmp_path, train__log=STEPS, results__stats__csv=broken)

    assert kinds(answer)[-1] == "nothing"
    assert len(kinds(answer)) > 1
