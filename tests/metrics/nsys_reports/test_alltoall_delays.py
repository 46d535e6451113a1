"""Delays of all-to-all exchanges with known answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ccltui.metrics.nsys_reports.alltoall_delays import (
    Exchanges,
    exchanges_of_section,
    exchanges_of_tables,
    group_kernels,
    is_exchange,
    kind_shares,
    operation_shares,
    study,
    total_of,
)
from ccltui.metrics.nsys_reports.report import Report, ReportColumn
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.report_tables import ReportTables, read_report_tables
from ccltui.parsers.nsys.stats_text import parse_stats_text, read_stats_text

HEADER = "Start (us),Duration (us),CorrId,Device,Name\n"
KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def exchanges(*kernels: tuple[int, int, int]) -> Exchanges:
    """Kernels as (device, start, end)."""
    rows = sorted(kernels, key=lambda kernel: kernel[1])
    device, start, end = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    names = tuple(f"GPU {number}" for number in range(int(device.max()) + 1))
    return Exchanges(start, end - start, device, names)


def test_total_is_the_longest_and_actual_the_shortest_kernel() -> None:
    found = study(exchanges((0, 0, 100), (1, 60, 100), (0, 200, 250), (1, 190, 250)))

    assert found.total_ns.tolist() == [100, 60]
    assert found.actual_ns.tolist() == [40, 50]
    assert found.delay_ns.tolist() == [60, 10]
    assert found.last == {"GPU 0": 1, "GPU 1": 1}
    assert (found.num_complete, found.coverage) == (2, 1.0)


def test_a_late_device_is_nearer_to_the_next_exchange_and_yet_joins_its_own() -> None:
    """By starts alone 370 is nearer to 400 than to 0."""
    found = study(exchanges((0, 0, 390), (1, 370, 392), (0, 400, 450), (1, 405, 450)))

    assert found.total_ns.tolist() == [390, 50]
    assert found.actual_ns.tolist() == [22, 45]


def test_a_device_without_a_kernel_breaks_its_own_exchange_only() -> None:
    """Four rows at a time would mix all exchanges after the gap."""
    found = study(
        exchanges(
            *((0, 0, 100), (1, 10, 100), (2, 20, 100)),
            *((0, 200, 300), (2, 250, 300)),
            *((0, 400, 500), (1, 490, 500), (2, 410, 500)),
        )
    )

    assert (found.rows >= 0).sum(axis=1).tolist() == [3, 2, 3]
    assert found.delay_ns.tolist() == [20, 90]
    assert found.coverage == 6 / 8
    assert found.num_kernels == {"GPU 0": 3, "GPU 1": 2, "GPU 2": 3}


def test_the_window_may_cut_an_exchange_at_either_edge() -> None:
    found = study(exchanges((1, 0, 50), (0, 100, 160), (1, 110, 160), (0, 200, 260)))

    assert found.rows.shape == (3, 2)
    assert found.delay_ns.tolist() == [10]


def test_no_kernel_and_no_complete_exchange() -> None:
    none = np.empty(0, np.int64)

    empty = study(Exchanges(none, none, none, ()))
    alone = study(exchanges((0, 0, 10), (1, 20, 30)))

    assert (empty.num_complete, empty.coverage, empty.summary()["delay"]["mean"]) == (0, None, None)
    assert (alone.num_complete, alone.coverage) == (0, 0.0)
    assert alone.last == {"GPU 0": 0, "GPU 1": 0}


def test_kernels_of_no_length_end_the_loop() -> None:
    assert group_kernels(exchanges((0, 5, 5), (1, 5, 5))).shape == (2, 2)


def test_statistics_are_in_microseconds() -> None:
    pairs = [
        ((0, k * 10_000, k * 10_000 + 1000 + k), (1, k * 10_000, k * 10_000 + 1000))
        for k in range(1, 21)
    ]

    spread = study(exchanges(*(kernel for pair in pairs for kernel in pair))).summary()["delay"]

    assert spread == {"mean": 0.0105, "p50": 0.0105, "p95": 0.019, "max": 0.02}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (KERNEL, True),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm *, unsigned long)", True),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)", False),
        ("void my_sendrecv_kernel()", False),
    ],
)
def test_names_of_exchanges(name: str, expected: bool) -> None:
    assert is_exchange(name) is expected


def test_only_exchanges_of_a_trace_are_taken() -> None:
    rows = f'10.000,5.000,1,A100 (0),"{KERNEL}"\n11.000,4.000,2,A100 (1),"{KERNEL}"\n'
    text = HEADER + rows + "12.000,1.000,3,A100 (0),gemm\n"

    found = exchanges_of_section(parse_stats_text(text, path="x_cuda_gpu_trace.csv").sections[0])

    assert found.devices == ("A100 (0)", "A100 (1)")
    assert (found.start_ns.tolist(), found.dur_ns.tolist()) == ([10_000, 11_000], [5_000, 4_000])


def test_starts_that_were_cut_before_the_point_are_refused() -> None:
    text = f'{HEADER}1004…,5.000,1,A100 (0),"{KERNEL}"\n11.000,4.000,2,A100 (1),"{KERNEL}"\n'
    section = parse_stats_text(text, path="x_cuda_gpu_trace.csv").sections[0]

    with pytest.raises(TraceError, match="cut numbers off"):
        exchanges_of_section(section)


def test_a_capture_without_device_work() -> None:
    assert len(exchanges_of_tables(ReportTables(()))) == 0


def summary(**totals: int) -> Report:
    names = list(totals)
    return Report(
        "cuda_gpu_sum",
        "",
        (
            ReportColumn("Total Time", "time", np.array(list(totals.values()), np.int64)),
            ReportColumn("Instances", "count", np.ones(len(names), np.int64)),
            ReportColumn(
                "Category",
                "text",
                ["MEMORY_OPER" if name.startswith("copy") else "CUDA_KERNEL" for name in names],
            ),
            ReportColumn("Operation", "text", names),
        ),
    )


def test_shares_of_kinds_with_a_cutoff() -> None:
    report = summary(ncclDevKernel_SendRecv=500, sgemm_a=300, sgemm_b=150, copy_x=45, softmax_k=5)

    shares = kind_shares(report, 5.0)

    assert [(share.name, share.percent, share.operations) for share in shares] == [
        ("comm", 50.0, 1),
        ("gemm", 45.0, 2),
        ("below 5 %", 5.0, 2),
    ]
    assert [share.name for share in operation_shares(report, 20.0)] == [
        *("ncclDevKernel_SendRecv", "sgemm_a", "below 20 %")
    ]
    assert total_of(report, "sgemm_b") == (150, 1)
    assert total_of(report, "none") is None
    assert kind_shares(summary(), 1.0) == ()


@pytest.fixture(scope="session")
def published(shared: Path) -> Exchanges:
    path = shared / "nsys" / "aristos" / "multi_8x4_1.3B_trace.txt"
    if not path.exists():
        pytest.skip(f"no {path}")
    return exchanges_of_section(read_stats_text(path).tables[0])


def test_the_published_trace(published: Exchanges) -> None:
    found = study(published)

    delay = found.summary()["delay"]

    assert (len(published), found.num_complete, found.coverage) == (2312, 578, 1.0)
    assert [round(delay[name] or 0) for name in ("mean", "p50", "p95", "max")] == [
        *(278, 186, 643, 3221)
    ]
    assert [count for _, count in sorted(found.last.items())] == [330, 47, 75, 126]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lost_kernels_do_not_mix_exchanges(published: Exchanges, seed: int) -> None:
    """GIVEN the published trace without 60 of its kernels, THEN no group mixes two exchanges."""
    kept = np.ones(len(published), np.bool_)
    kept[np.random.default_rng(seed).choice(len(published), 60, replace=False)] = False
    rows = np.flatnonzero(kept)
    thinned = Exchanges(
        published.start_ns[kept], published.dur_ns[kept], published.device[kept], published.devices
    )

    whole = {frozenset(group) for group in group_kernels(published).tolist()}
    groups = group_kernels(thinned)

    complete = groups[(groups >= 0).all(axis=1)]
    assert all(frozenset(rows[group].tolist()) in whole for group in complete)
    assert len(groups) == 578
    assert study(thinned).coverage == len(complete) * 4 / 2252


def test_the_late_device_of_a_capture(shared: Path) -> None:
    path = shared / "nsys" / "nsys-ai" / "mfu_2gpu_before.sqlite"
    if not path.exists():
        pytest.skip(f"no {path}")

    found = study(exchanges_of_tables(read_report_tables(path)))

    device, duration = found.exchanges.device, found.exchanges.dur_ns
    assert [int(duration[device == number].sum()) for number in (0, 1)] == [17172652, 8229100]
    assert found.last == {"GPU 0": 11, "GPU 1": 22}
    assert found.num_complete == 33
