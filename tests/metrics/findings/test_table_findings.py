"""Tables that PyTorch's profiler prints: of kernels, of the host alone, and among other lines."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Answer
from ccltui.parsers.side.printed_tables import tables_in

HOST = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg")
DEVICE = ("Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg")
Row = tuple[str, str, str, int]
"""Name, own time on the host, own time on the device, calls."""


def table(rows: Sequence[Row], cpu: str, cuda: str = "") -> str:
    """Print rows as `key_averages().table()` does."""
    titles = ("Name", *HOST, *(DEVICE if cuda else ()), "# of Calls")
    widths = [55, *[14] * (len(titles) - 1)]
    rule = "  ".join("-" * width for width in widths)
    lines = [rule, _line(titles, widths), rule]
    for name, host, device, calls in rows:
        cells = [name, "1.00%", host, "2.00%", host, host]
        cells += [device, "3.00%", device, device] if cuda else []
        lines.append(_line([*cells, str(calls)], widths))
    lines += [rule, f"Self CPU time total: {cpu}"]
    lines += [f"Self CUDA time total: {cuda}"] if cuda else []
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell: >{width}}" for cell, width in zip(cells, widths, strict=True))


REDUCED = table(
    [
        ("aten::mm", "9.000ms", "200.000ms", 10),
        ("nccl:all_reduce", "0.000us", "600.000ms", 100),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKern...", "0.000us", "600.000ms", 100),
        ("void cutlass::Kernel2<big>(int, float)", "0.000us", "200.000ms", 10),
    ],
    "1.000s",
    "1.000s",
)
LAUNCHES = table(
    [
        ("cudaLaunchKernel", "2.000s", "0.000us", 9000),
        ("aten::copy_", "500.000ms", "100.000ms", 9000),
        ("Memcpy HtoD (Pageable -> Device)", "0.000us", "100.000ms", 9000),
    ],
    "4.000s",
    "1.000s",
)


def answered(folder: Path, text: str, name: str = "prof.txt") -> Answer:
    (folder / name).write_text(text, encoding="utf-8")
    return answer_of(view_of(folder))


def test_communication_in_a_table(tmp_path: Path) -> None:
    answer = answered(tmp_path, REDUCED)

    (found,) = answer.findings
    assert found.kind == "kernel_totals"
    assert found.text == (
        "Communication takes 60 % of 1 s of kernel time: AllReduce (nccl) 6 ms a call."
    )
    assert "nccl:all_reduce" not in found.more


def test_a_device_that_waits_for_the_host(tmp_path: Path) -> None:
    answer = answered(tmp_path, LAUNCHES)

    assert [one.kind for one in answer.findings] == ["host_bound", "kernel_totals"]
    assert answer.findings[0].text == (
        "The host spends 4 s in operators and calls, the device computes 1 s: it mostly waits for "
        "the host."
    )


def test_a_host_that_waits_for_the_device(tmp_path: Path) -> None:
    text = LAUNCHES.replace("cudaLaunchKernel     ", "cudaDeviceSynchronize")
    text = text.replace("     cudaLaunchKernel", "cudaDeviceSynchronize").replace(
        "4.000s", "2.600s"
    )

    assert [one.kind for one in answered(tmp_path, text).findings] == ["kernel_totals"]


def test_a_table_of_the_host_alone(tmp_path: Path) -> None:
    text = table(
        [("aten::conv2d", "60.000ms", "", 2), ("aten::add", "1.000ms", "", 2)], "100.000ms"
    )

    (found,) = answered(tmp_path, text).findings

    assert found.text == "The operator aten::conv2d takes 60 % of 100 ms on the host."


def test_a_table_among_the_lines_of_a_log(tmp_path: Path) -> None:
    steps = "".join(f"iter {at}: loss 4.0, time 50.00ms\n" for at in range(5))

    found = answered(tmp_path, steps + REDUCED, "train.log").findings

    assert [one.kind for one in found] == ["kernel_totals", "run_log", "run_log"]


@pytest.mark.parametrize(
    "text", ["Name  Self CPU\n", "Name  Self CPU\n-----  ----\naten::mm  many\n"]
)
def test_headers_without_rows_are_no_table(text: str) -> None:
    assert tables_in(text) == []


def _cut(rows: Sequence[tuple[str, str, str, str, str]]) -> str:
    """Print name, own time and share on the host and on the device, without the totals."""
    titles = ("Name", "Self CPU %", "Self CPU", "Self XPU", "Self XPU %", "# of Calls")
    widths = [40, *[14] * (len(titles) - 1)]
    lines = ["  ".join("-" * width for width in widths), _line(titles, widths)]
    for name, host, host_share, device, device_share in rows:
        lines.append(_line([name, host_share, host, device, device_share, "4"], widths))
    return "\n".join(lines) + "\n"


def test_totals_of_a_table_without_its_end(tmp_path: Path) -> None:
    text = _cut(
        [
            ("aten::mm", "3.000s", "30.00%", "40.000ms", "20.00%"),
            ("c10d::allreduce_", "1.000s", "10.00%", "60.000ms", "30.00%"),
        ]
    )

    host, device = answered(tmp_path, text).findings

    assert host.text == (
        "The host spends 10 s in operators and calls, the device computes 200 ms: it mostly waits "
        "for the host."
    )
    assert host.more.startswith("Most time of its own: aten::mm 30 %")
    # no kernel has a row of its own here: operators state the time of the device
    assert "30 % of 200 ms of device time" in device.text
    assert "operator" in device.text + device.more


def test_kernels_without_arguments_and_ranges_on_the_device(tmp_path: Path) -> None:
    text = table(
        [
            ("gate_and_add_kernel", "0.000us", "80.000ms", 30),
            ("my_forward", "0.000us", "90.000ms", 30),
            ("my_forward", "70.000ms", "0.000us", 30),
        ],
        "70.000ms",
        "80.000ms",
    )

    (found,) = answered(tmp_path, text).findings

    assert found.text == "The kernel gate_and_add_kernel takes 100 % of 80 ms of kernel time."


def test_a_compressed_text(tmp_path: Path) -> None:
    (tmp_path / "prof.txt.gz").write_bytes(gzip.compress(REDUCED.encode()))

    (found,) = answer_of(view_of(tmp_path)).findings

    assert found.text.startswith("Communication takes 60 % of 1 s of kernel time")


def test_totals_of_nsys_without_a_whole_row(tmp_path: Path) -> None:
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Name\n"

    (found,) = answered(tmp_path, f"{header}70.0,9000,3,3000.0", "stats.csv").findings

    assert found.text == "No profiler trace found, only 1 nsys text file."


def test_a_log_keeps_its_answer_beside_a_table_without_any_time(tmp_path: Path) -> None:
    steps = "".join(f"step: {step} loss: {3 - step / 10:.1f}\n" for step in range(1, 5))
    (tmp_path / "train.log").write_text(steps + table([("aten::add", "0.000us", "", 1)], "0.000us"))

    (finding,) = answer_of(view_of(tmp_path)).findings

    assert "loss" in finding.text
