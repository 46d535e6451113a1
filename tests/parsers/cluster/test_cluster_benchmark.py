"""Cluster benchmarks: the printed values, the versioned block, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.parsers.cluster.machine_files import ClusterBenchmark, read_cluster_benchmark
from ccltui.parsers.errors import CardError

PRINTED = """\
timestamp: 2026-01-01T10:20:36.520830
hostname: worker-3
total_time: 172.49 seconds
results:
  Inter-Node Network:
    Latency (ping-pong): 0.02 ms
    Bandwidth (ping-pong, 24 GPUs): 309.57 GB/s
  GPU 7:
    Memory bandwidth: 3,960.35 GB/s
    Compute (FP32 matmul): 6.16 TFLOPS
  node-b GPU 1:
    Compute (BF16 matmul): 700 TFLOPS
  Network: skipped
  Storage I/O (per-node):
    Random IOPS (4K blocks): 8882.67 ops/s
    Sequential Read: n/a
  CPU:
    Sorting (NumPy): 75.15 M elements/s [cpu, cached]
    Matrix multiply (NumPy): "not measured: too slow"
    Something new: 5 widgets
"""


def read(root: Path, text: str) -> ClusterBenchmark:
    path = root / "benchmark_1.yaml"
    path.write_text(text)
    return read_cluster_benchmark(path, shown_path="benchmark_1.yaml")


def test_values_as_they_are_printed(tmp_path: Path) -> None:
    found = read(tmp_path, PRINTED)

    by_test = {(one.category, one.test): one for one in found.measurements}
    memory = by_test["GPU 7", "Memory bandwidth"]
    assert (memory.id, memory.device, memory.value, memory.unit) == (
        *("gpu_memory_bandwidth", 7),
        *(3960.35, "GB/s"),
    )
    assert memory.unit_bytes == 1 << 30
    assert memory.decimal_gbps == pytest.approx(4252.39, abs=0.01)
    other = by_test["node-b GPU 1", "Compute (BF16 matmul)"]
    assert (other.id, other.host, other.device) == ("matmul_bf16", "node-b", 1)
    network = by_test["Inter-Node Network", "Bandwidth (ping-pong, 24 GPUs)"]
    assert (network.id, network.ranks) == ("network_bandwidth", 24)
    sorting = by_test["CPU", "Sorting (NumPy)"]
    assert (sorting.unit, sorting.marks) == ("M elements/s", ("cpu", "cached"))
    absent = by_test["CPU", "Matrix multiply (NumPy)"]
    assert (absent.value, absent.reason) == (None, "too slow")
    assert by_test["CPU", "Something new"].id == ""
    assert (found.hostname, found.total_time_s) == ("worker-3", 172.49)
    assert found.timestamp == "2026-01-01T10:20:36.520830"


def test_what_is_no_value_is_told_with_its_line(tmp_path: Path) -> None:
    found = read(tmp_path, PRINTED)

    absent = next(one for one in found.measurements if one.test == "Sequential Read")
    assert (absent.value, absent.reason) == (None, "n/a")
    assert [note.message for note in found.notes] == [
        "line 13: Network holds no tests",
        "line 16: Sequential Read is 'n/a', not a number and a unit",
    ]


BLOCK = """\
hostname: node-a
results:
  Inter-GPU Communication:
    All-reduce (16 GPUs): 200.34 GB/s
machine_readable:
  schema: ccltui.cluster_benchmark
  schema_version: 1
  device: cuda
  backend: nccl
  gpu_name: NVIDIA H200
  world_size: 16
  nodes: 2
  hosts: [node-a, node-b]
  versions: {torch: 2.9.1, nccl: 2.27.5}
  values:
    - id: allreduce
      category: Inter-GPU Communication
      test: All-reduce (16 GPUs)
      value: 200.3391
      unit: GB/s
      unit_bytes: 1000000000
      ranks: 16
      samples: [199.5, 200.3391, oops]
      marks: [same_node]
      method: bus bandwidth
    - id: matmul_tf32
      category: GPU 1
      test: Compute (TF32 matmul)
      value: null
      unit: TFLOPS
      host: node-b
      device: 1
      reason: no TF32 on this device
    - {value: 5}
"""


def test_the_versioned_block_is_used_where_it_is_there(tmp_path: Path) -> None:
    found = read(tmp_path, BLOCK)

    reduce, matmul = found.measurements
    assert found.versioned
    assert (found.gpu_name, found.world_size, found.nodes) == ("NVIDIA H200", 16, 2)
    assert (found.hosts, found.versions["nccl"]) == (("node-a", "node-b"), "2.27.5")
    assert (reduce.value, reduce.unit_bytes, reduce.decimal_gbps) == (200.3391, 10**9, 200.3391)
    assert (reduce.samples, reduce.marks) == ((199.5, 200.3391), ("same_node",))
    assert (matmul.host, matmul.device, matmul.value) == ("node-b", 1, None)
    assert matmul.reason == "no TF32 on this device"
    assert found.notes[-1].message.endswith("a value without an id")


@pytest.mark.parametrize(
    ("change", "note", "versioned"),
    [
        (("schema_version: 1", "schema_version: 7"), "read like 1", True),
        (("ccltui.cluster_benchmark", "someone.else"), "of another schema", False),
    ],
)
def test_blocks_of_other_versions(
    tmp_path: Path, change: tuple[str, str], note: str, versioned: bool
) -> None:
    found = read(tmp_path, BLOCK.replace(*change))

    assert found.versioned is versioned
    assert any(note in one.message for one in found.notes)
    assert found.measurements[0].value == (200.3391 if versioned else 200.34)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "no cluster benchmark: it has no keys"),
        ("hostname: a\nresults: none\n", "no cluster benchmark: `results:` holds nothing"),
        ("results:\n  CPU: {a: 1\n", "benchmark_1.yaml:3:1: "),
        ("results:\n  CPU: !!python/object:os.system {}\n", "the tag "),
        ("results:\n  CPU: {a: 1 x}\n  CPU: {b: 2 x}\n", "duplicate key 'CPU'"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nresults: {}\n" + "x: [" + "*b," * 9, "benchmark_1.yaml"),
    ],
)
def test_hostile_files_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CardError) as caught:
        read(tmp_path, text)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    levels = "".join(f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]\n" for n in range(7))

    with pytest.raises(CardError, match="this is no cluster benchmark"):
        read(tmp_path, f"l0: &l0 [x, x]\n{levels}results: {{}}\n")
