"""Files about the machines of a job: benchmarks, topologies, network cards, logs of NCCL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import (
    Format,
    Match,
    Priority,
    Rule,
    json_keys,
    text_search,
    text_start,
    text_stem,
)

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_BENCHMARK_KEYS = tuple(re.compile(rf"^{key}\s*:", re.MULTILINE) for key in ("hostname", "results"))
_NCCL_LINE = re.compile(r"\bNCCL (?:INFO|WARN|TRACE)\b")
_NCCL_TESTS = re.compile(r"^#\s+(?:nccl-tests version|size\s+count\s+type)", re.MULTILINE)
_RAS = re.compile(
    r"^Communicators\.\.\. \(|^Group +Comms +Nodes +Ranks|^#\d+-\d+ \([0-9a-f]{8,16}\) [A-Z]"
    r"|^ {0,4}Communicator ranks have different",
    re.MULTILINE,
)
_GPU_TOPOLOGY = re.compile(r"^\s*GPU0[ \t]+(?:GPU\d|X\b|CPU|NIC\d|mlx)", re.MULTILINE)
_IB_STATUS = re.compile(r"^CA '[^'\n]+'", re.MULTILINE)
_XML_SYSTEM = re.compile(r"^\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!.{0,4000}?)?<system\b", re.DOTALL)


def _is_benchmark(sample: FileSample) -> Match | None:
    text = sample.readable
    if text is None or not sample.is_named_yaml:
        return None
    if "hostname" not in text or "results" not in text:  # a hundredth of the time of the search
        return None
    return Match() if all(key.search(text) for key in _BENCHMARK_KEYS) else None


CLUSTER_BENCHMARK: Final = Format(
    kind="cluster_benchmark",
    description="measurements of a node or cluster, in YAML",
    sniff=(Rule(Priority.YAML, _is_benchmark),),
    has_own_metrics=True,
)
NCCL_TOPOLOGY: Final = Format(
    kind="nccl_topology",
    description="the topology that NCCL dumps as XML",
    sniff=(text_start(_XML_SYSTEM, 8192), text_stem("nccl_topo")),
)
IB_STATUS: Final = Format(
    kind="ib_status",
    description="output of ibstat",
    sniff=(text_search(_IB_STATUS, words=("CA '",)), text_stem("ibstat")),
)
NCCL_TESTS: Final = Format(
    kind="nccl_tests",
    description="output of nccl-tests",
    sniff=(text_search(_NCCL_TESTS, words=("nccl-tests version", "count")),),
    has_own_metrics=True,
    read_by_line=True,
)
NCCL_TESTS_JSON: Final = Format(
    kind="nccl_tests_json",
    description="JSON of nccl-tests (-J)",
    sniff=(
        json_keys("nccl_version", "config", "args"),
        json_keys("nccl_version", "results", "average_bus_bandwidth"),
    ),
    has_own_metrics=True,
)
GPU_TOPOLOGY: Final = Format(
    kind="gpu_topology",
    description="output of nvidia-smi topo -m",
    sniff=(text_search(_GPU_TOPOLOGY, words=("GPU0",)), text_stem("topo")),
)
NCCL_LOG: Final = Format(
    kind="nccl_log",
    description="a log with lines of NCCL",
    sniff=(text_search(_NCCL_LINE, Priority.TEXT_LINES, words=("NCCL ",)),),
    has_own_metrics=True,
    read_by_line=True,
)
NCCL_RAS: Final = Format(
    kind="nccl_ras",
    description="a report of NCCL's RAS, in text or JSON",
    sniff=(
        text_search(_RAS, words=("Communicators...", "Group ", "Communicator ranks", ") ")),
        json_keys("nccl_version", "communicators_count"),
        json_keys("timestamp", "group", "event", "details"),
    ),
    has_own_metrics=True,
    read_by_line=True,
)
