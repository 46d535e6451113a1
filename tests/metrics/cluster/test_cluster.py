"""Checks of machines: outliers, impossible values, cross-checks and NCCL logs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.cluster.cluster_table import cluster_table, hosts_of, implausible, peers_of
from ccltui.metrics.compare.compare_profiles import compare_benchmarks
from ccltui.metrics.model.peaks import find_device
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.parsers.cluster.machine_files import (
    ClusterBenchmark,
    Measurement,
    read_cluster_benchmark,
)
from ccltui.parsers.discovery.discover import discover

# The published example of three hosts with eight H200 each.
MEMORY = (3960.35, 3979.42, 3980.88, 3981.07, 3978.05, 3978.61, 3980.17, 3979.32)
MATMUL = (6.16, 51.34, 51.37, 51.37, 51.34, 51.35, 51.36, 51.34)
HEAD = """\
timestamp: 2025-11-21T10:20:36.520830
hostname: worker-3
total_time: 172.49 seconds
results:
  Inter-Node Network:
    Latency (ping-pong): 0.02 ms
    Bandwidth (ping-pong, 24 GPUs): 309.57 GB/s
    All-to-all bandwidth (24 GPUs): 6629.62 GB/s
"""
TAIL = """\
  Inter-GPU Communication:
    All-reduce (24 GPUs): 200.34 GB/s
    All-to-all (24 GPUs): 56.68 GB/s
  Storage I/O (per-node):
    Sequential Write: 447.99 MB/s
    Sequential Read: 1321.23 MB/s
    Parallel Write (16 workers): 983.30 MB/s
    Parallel Read (16 workers): 1317.59 MB/s
    Random IOPS (4K blocks): 8882.67 ops/s
  Storage I/O (multi-node aggregate):
    Write bandwidth: 9047.42 MB/s
    Read bandwidth: 27009.35 MB/s
  CPU:
    Multi-core stress (all cores): 87.66 K ops/s
    Matrix multiply (NumPy): 94.11 GFLOPS
    Compression (zlib): 46.25 MB/s
    Sorting (NumPy): 75.15 M elements/s
  Memory:
    Bandwidth (copy): 6.38 GB/s
    Allocation/deallocation: 162626.65 ops/s
"""
EXAMPLE = (
    HEAD
    + "".join(
        f"  GPU {i}:\n    Memory bandwidth: {memory} GB/s\n"
        f"    Compute (FP32 matmul): {rate} TFLOPS\n"
        for i, (memory, rate) in enumerate(zip(MEMORY, MATMUL, strict=True))
    )
    + TAIL
)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    (tmp_path / "benchmark_1.yaml").write_text(EXAMPLE)
    return tmp_path


def measure(path: Path, name: str, **overrides: Any) -> Result:
    return find(name).run(view_of(path).with_options(overrides=overrides))


def read(path: Path) -> ClusterBenchmark:
    return read_cluster_benchmark(path / "benchmark_1.yaml", shown_path="b")


def test_the_one_slow_device_of_eight(example: Path) -> None:
    result = measure(example, "cluster_outliers")

    assert (result.status, result.value) == ("ok", 1)
    (outlier,) = result.details["outliers"]
    assert (outlier["where"], outlier["value"], outlier["unit"]) == ("GPU 0", 6.16, "TFLOPS")
    assert outlier["median"] == 51.345
    assert outlier["mad"] == pytest.approx(0.01)
    assert outlier["deviation_pct"] == pytest.approx(-88.0, abs=0.05)
    assert outlier["line"] == 11
    assert result.details["tests"][0]["n"] == 8


def test_half_a_percent_of_memory_bandwidth_is_no_outlier(example: Path) -> None:
    # GPU 0 is 13 scaled MADs off in memory bandwidth, and 0.5 % of the median
    strict = measure(example, "cluster_outliers", outlier_floor_pct=0)
    lax = measure(example, "cluster_outliers", outlier_mads=1e6)

    assert [row["test"] for row in strict.details["outliers"]] == [
        "Memory bandwidth",
        "Compute (FP32 matmul)",
    ]
    assert lax.value == 0


@pytest.mark.parametrize("value", ["nan", "-1", "many"])
def test_thresholds_are_numbers(example: Path, value: str) -> None:
    result = measure(example, "cluster_outliers", outlier_mads=value)

    assert (result.status, result.reason) == ("unavailable", "card_invalid")


def test_the_impossible_all_to_all(example: Path) -> None:
    result = measure(example, "cluster_plausibility")

    findings = result.details["findings"]
    of_network = [
        row["message"]
        for row in findings
        if row["where"] == "Inter-Node Network, All-to-all bandwidth (24 GPUs)"
    ]
    assert (result.value, result.details["num_suspect"]) == (2, 2)
    assert result.details["device"] is None
    assert of_network == [
        "6629.62 GB/s (297 GB/s a rank in 10^9 bytes), and the fastest network card carries "
        "100.0 GB/s in each direction",
        "6629.62 GB/s is 117 times Inter-GPU Communication, All-to-all (24 GPUs): 56.68 GB/s a "
        "rank (the same pattern, synchronised)",
    ]


def test_pairs_of_one_host_and_reads_from_memory(example: Path) -> None:
    findings = measure(example, "cluster_plausibility").details["findings"]

    by_place = {row["where"]: row for row in findings}
    pair = by_place["Inter-Node Network, Bandwidth (ping-pong, 24 GPUs)"]
    assert pair["verdict"] == "impossible"
    assert pair["message"].startswith("309.57 GB/s (332 GB/s in 10^9 bytes), and the fastest ")
    assert pair["message"].endswith("the two ranks may share a host")
    reads = by_place["Storage I/O (multi-node aggregate), Read bandwidth"]
    assert (reads["verdict"], reads["message"]) == (
        "suspect",
        "27009.35 MB/s is 6.8 times what 3 hosts reach one by one: the page cache may have "
        "answered",
    )


def test_cards_of_the_host_and_a_named_device_are_limits(example: Path) -> None:
    (example / "ibstat.txt").write_text(
        "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
    )

    result = measure(example, "cluster_plausibility", gpu_model="H200")

    messages = [row["message"] for row in result.details["findings"]]
    assert result.details["device"] == "H200"
    assert any("the cards of this host carry 50.0 GB/s" in text for text in messages)


def value(name: str, number: float, unit: str = "TFLOPS", **more: Any) -> Measurement:
    return Measurement(name, "GPU 0", name, number, unit, 1, **more)


def doubts(one: Measurement, *others: Measurement, device: str = "H200") -> list[str]:
    benchmark = ClusterBenchmark("b", (one, *others))
    return [doubt.message for doubt in implausible(benchmark, find_device(device))]


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (value("matmul_fp32", 66.0), None),
        (value("matmul_fp32", 300.0), "the H200 makes at most 67 TFLOPS in fp32; TF32 may have"),
        (value("matmul_fp32", 700.0), "the H200 makes at most 67 TFLOPS in fp32"),
        (value("matmul_bf16", 700.0), None),
        (value("matmul_bf16", 1979.0), "the H200 makes at most 989 TFLOPS in bf16"),
        (value("gpu_memory_bandwidth", 4000.0, "GB/s", unit_bytes=10**9), None),
        (
            value("gpu_memory_bandwidth", 5000.0, "GB/s", unit_bytes=10**9),
            "the memory of the H200 moves at most 4,800 GB/s",
        ),
        (value("matmul_fp32", 0.0), "not above zero"),
        (value("matmul_fp32", -3.0), "not above zero"),
        (value("network_latency", 0.0001, "ms"), "which no network reaches"),
        (value("alltoall", 5.0, "GB/s", marks=("unsynchronised",)), "a rate of launches"),
        (value("storage_sequential_read", 5.0, "MB/s", marks=("cached",)), "page cache"),
        (value("network_bandwidth", 5.0, "GB/s", marks=("same_node",)), "this is no network"),
        (value("network_bandwidth", 5.0, "GB/s", marks=("cpu",)), None),
        (value("allreduce", 5.0, "GB/s", marks=("same_node",)), None),
    ],
)
def test_limits(one: Measurement, message: str | None) -> None:
    found = doubts(one)

    assert (message is None) == (not found)
    assert message is None or message in found[0]


def rate(name: str, number: float, ranks: int) -> Measurement:
    return value(name, number, "GB/s", unit_bytes=10**9, ranks=ranks)


@pytest.mark.parametrize(
    ("device", "of_network", "verdicts"),
    [
        # All ranks together move 16 x 57 GB/s at most: what one rank's bus bandwidth is 8 times of.
        ("cuda", 450.0, []),
        ("cuda", 1900.0, ["impossible"]),
        ("cpu", 1900.0, ["suspect"]),  # a call returns when its data has moved
    ],
)
def test_an_all_to_all_of_all_ranks_is_compared_with_all_ranks(
    device: str, of_network: float, verdicts: list[str]
) -> None:
    measured = (rate("network_alltoall", of_network, 16), rate("alltoall", 57.0, 16))
    benchmark = ClusterBenchmark("b", measured, versioned=True, nodes=2, device=device)

    assert [doubt.verdict for doubt in implausible(benchmark, None)] == verdicts


def test_a_bandwidth_of_all_pairs_of_two_hosts_is_shared_among_them() -> None:
    # Eight cards of 400 Gbit/s a host, in one direction.
    measured = (rate("network_bandwidth", 390.0, 16),)

    own = ClusterBenchmark("b", measured, versioned=True, nodes=2)
    of_one_pair = ClusterBenchmark("b", measured, nodes=2)

    assert implausible(own, None) == ()
    assert [doubt.verdict for doubt in implausible(of_one_pair, None)] == ["impossible"]
    assert implausible(own, None, card_gbps=400.0) == ()
    assert [doubt.verdict for doubt in implausible(own, None, card_gbps=100.0)] == ["impossible"]


def test_a_rank_that_sends_faster_than_it_reads() -> None:
    memory = value("gpu_memory_bandwidth", 4000.0, "GB/s", unit_bytes=10**9)

    found = doubts(memory, rate("alltoall", 5000.0, 8))

    assert found == [
        "5000 GB/s is above the memory bandwidth of the H200, 4,800 GB/s: no device sends faster "
        "than it reads"
    ]


def test_the_number_of_hosts_is_stated_or_derived(example: Path) -> None:
    assert hosts_of(read(example)) == 3
    assert hosts_of(ClusterBenchmark("b", (), nodes=5)) == 5
    assert hosts_of(ClusterBenchmark("b", (value("alltoall", 1.0, ranks=7),))) is None


@settings(max_examples=60)
@given(
    # Nobody is further than 10 from the middle: the limit of 3.5 scaled deviations is below 60.
    st.lists(st.floats(95, 105), min_size=4, max_size=20),
    st.integers(0, 19),
    st.sampled_from([10.0, 1000.0]),
)
def test_a_planted_outlier_is_the_one_found(
    values: list[float], place: int, planted: float
) -> None:
    place %= len(values)
    values[place] = planted
    found = [
        Measurement("matmul_fp32", f"GPU {i}", "m", number, "TFLOPS", 1, device=i)
        for i, number in enumerate(values)
    ]

    (peers,) = peers_of(ClusterBenchmark("b", tuple(found)), floor_pct=25)

    assert place in peers.outliers
    assert len(peers.outliers) == 1


def test_two_devices_have_no_peers() -> None:
    found = tuple(Measurement("m", f"GPU {i}", "m", 1.0, "TFLOPS", 1, device=i) for i in range(2))

    assert peers_of(ClusterBenchmark("b", found)) == ()


def test_the_table_has_every_value_and_marks_the_doubtful(example: Path) -> None:
    rows = cluster_table(discover(example))

    marked = {(row.section, row.what): row.mark for row in rows if row.mark}
    assert len(rows) == 34
    assert marked == {
        ("Inter-Node Network", "Bandwidth (ping-pong, 24 GPUs)"): "impossible",
        ("Inter-Node Network", "All-to-all bandwidth (24 GPUs)"): "impossible",
        ("GPU 0", "Compute (FP32 matmul)"): "outlier",
        ("Storage I/O (multi-node aggregate)", "Write bandwidth"): "suspect",
        ("Storage I/O (multi-node aggregate)", "Read bandwidth"): "suspect",
    }


def test_a_broken_benchmark_is_one_line_and_leaves_the_others(example: Path) -> None:
    (example / "benchmark_2.yaml").write_text("hostname: a\nresults:\n  CPU: {a: 1 b: 2}\n")

    rows = cluster_table(discover(example))
    result = measure(example, "cluster_outliers")

    (broken,) = [row for row in rows if row.mark == "problem"]
    assert broken.message.startswith("benchmark_2.yaml:3:15: ")
    assert result.value == 1
    assert result.warnings[-1] == broken.message


def test_two_benchmarks_value_by_value(example: Path, tmp_path: Path) -> None:
    a = read(example)
    text = EXAMPLE.replace("6.16 TFLOPS", "51.30 TFLOPS").replace("0.02 ms", "0.04 ms")
    (tmp_path / "benchmark_1.yaml").write_text(text)

    found = compare_benchmarks(a, read(tmp_path), runs_vary_pct=5.0)

    rows = {row.name: row for row in found.rows}
    assert rows["GPU 0, Compute (FP32 matmul)"].verdict == "better"
    assert rows["Inter-Node Network, Latency (ping-pong)"].verdict == "worse"
    assert rows["GPU 1, Compute (FP32 matmul)"].verdict == "not distinguishable"
    assert (found.verdict, found.leading) == ("worse", None)
    assert found.comparability.verdict == "unknown"  # neither names its device


def test_bandwidth_of_nccl_tests(tmp_path: Path) -> None:
    header = "#       size         count      type   redop    root     time   algbw   busbw\n"
    rows = (
        "  1024  256  float  sum  -1  23.62  0.04  0.06  0  25.85  0.03  0.05  0\n"
        "  2048  512  float  sum  -1  24.00  0.17  0.26  0  23.00  0.18  0.27  0\n"
    )
    (tmp_path / "a.txt").write_text("# Collective test starting: all_gather_perf\n" + header + rows)
    (tmp_path / "b.txt").write_text("# Collective test starting: all_reduce_perf\n" + header + rows)

    result = measure(tmp_path, "nccl_tests_busbw")

    assert (result.value, result.details["collective"]) == (0.27, "all_reduce")
    assert (result.details["at_bytes"], result.details["num_wrong"]) == (2048, 0)
    answer = answer_of(view_of(tmp_path))
    assert answer.findings[0].do.startswith("Compare with the bandwidth that the links have")
    assert answer.unknown[0].startswith("A benchmark shows what links reach")


def test_facts_of_nccl_logs(tmp_path: Path) -> None:
    for rank, network in enumerate(("IB", "Socket")):
        (tmp_path / f"nccl_rank_{rank}.log").write_text(
            f"n{rank}:1:1 [0] NCCL INFO NCCL version 2.{26 + rank}.2\n"
            f"n{rank}:1:1 [0] NCCL INFO Using network {network}\n"
            f"n{rank}:1:1 [0] NCCL WARN no 5\nn{rank}:1:1 [0] NCCL WARN no 6\n"
        )

    result = measure(tmp_path, "nccl_transport")

    assert (result.value, result.details["networks"]) == (4, ["IB", "Socket"])
    assert "different versions of NCCL: 2.26.2, 2.27.2" in result.warnings
    assert any("the network is Socket" in text for text in result.warnings)


@pytest.mark.parametrize(
    "name", ["cluster_outliers", "cluster_plausibility", "nccl_tests_busbw", "nccl_transport"]
)
def test_without_files_every_metric_is_unavailable(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.log").write_text("nothing\n")

    result = measure(tmp_path, name)

    assert (result.status, result.reason, result.value) == ("unavailable", "no_side_file", None)


def test_a_file_that_is_written_again_in_the_same_size_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "cluster_benchmark.yaml"
    found = []
    for second, host in enumerate(("worker-3", "worker-4")):
        path.write_text((HEAD + TAIL).replace("worker-3", host))
        os.utime(path, (second, second))
        found += [one.hostname for one in read_cluster(discover(tmp_path)).benchmarks]

    assert found == ["worker-3", "worker-4"]
