"""Texts that lie beside a run: NCCL's words, topologies, training logs, marks of finished runs."""

from __future__ import annotations

import re
from typing import Final

from ccltui.parsers.found_files import Kind

ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

_RUN_COMPLETE = re.compile(
    r"(?:\[Rank \d+\] )?RUN_COMPLETE [^\n]*\bworld_size="
    r"|world_size=\d+.*\b(?:tokens_per_sec|total_wall_time_sec)=",
    re.DOTALL,
)
_NCCL_LINE = re.compile(r"\bNCCL (?:INFO|WARN|TRACE)\b")
_NCCL_TESTS = re.compile(r"^#\s+(?:nccl-tests version|size\s+count\s+type)", re.MULTILINE)
_GPU_TOPOLOGY = re.compile(r"^\s*GPU0[ \t]+(?:GPU\d|X\b|CPU|NIC\d|mlx)", re.MULTILINE)
_IB_STATUS = re.compile(r"^CA '[^'\n]+'", re.MULTILINE)
_XML_SYSTEM = re.compile(r"^\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!.{0,4000}?)?<system\b", re.DOTALL)
_STEP_LINE = re.compile(
    r"""
      \bstep:\s*\d+\s+loss:                          # torchtitan
    | \biteration\s+\d+\s*/\s*\d+\s*\|               # Megatron
    | \[titan\]
    | \bEpoch\s\d+\sfinished\.\sAvg\sLoss:
    """,
    re.VERBOSE,
)
_BY_NAME: Final[tuple[tuple[str, Kind], ...]] = (
    ("run_complete", "run_complete"),
    ("nccl_topo", "nccl_topology"),
    ("ibstat", "ib_status"),
    ("topo", "gpu_topology"),
    ("gpu_count", "run_metadata"),
)


def classify_run_text(text: str, name: str) -> Kind | None:
    """What the beginning of a text that lies beside a run is, None when it is nothing known."""
    plain = ANSI.sub("", text) if "\x1b" in text else text
    if _RUN_COMPLETE.match(plain[:4096].lstrip()):  # a log of the run may end with the same line
        return "run_complete"
    if _XML_SYSTEM.match(plain[:8192]):
        return "nccl_topology"
    if _IB_STATUS.search(plain):
        return "ib_status"
    if _NCCL_TESTS.search(plain):
        return "nccl_tests"
    if _GPU_TOPOLOGY.search(plain):
        return "gpu_topology"
    stem = name.lower().rpartition(".")[0]
    named = next((kind for begin, kind in _BY_NAME if stem == begin), None)
    if named is not None:
        return named
    if _STEP_LINE.search(plain):
        return "training_log"
    return "nccl_log" if _NCCL_LINE.search(plain) else None
