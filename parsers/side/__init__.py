"""Files of a job that are no traces: its workload card, results of runs, tables of totals.

Also memory snapshots of PyTorch, and events of NCCL's profiler plug-ins, which are counted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import (
    Format,
    Match,
    Priority,
    Rule,
    json_keys,
    json_name,
    text_search,
    text_start,
)
from ccltui.parsers.text.file_sample import is_pickle

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

SERVING_RESULTS: Final = Format(
    kind="serving_results",
    description="latencies that a serving benchmark measured",
    sniff=(
        json_keys("median_ttft_ms"),
        json_keys("mean_ttft_ms"),
        json_keys("ttfts"),  # before the statistics, where samples are kept
        json_keys("time_to_first_token"),
        json_keys("experiments", "service_kind"),
        json_keys("avg_latency", "latencies"),
        json_name("profile_export"),
    ),
    has_own_metrics=True,
)
EXPERT_STATS: Final = Format(
    kind="expert_stats",
    description="tokens by expert of a mixture-of-experts layer",
    sniff=(
        json_keys("expert_loads"),
        json_keys("rank", "token_counts"),
        json_name("moe_stats_"),
    ),
    rank_in_name=True,
    has_own_metrics=True,
)
TIMING_STATS: Final = Format(
    kind="timing_stats",
    description="times of iterations that the program measured",
    sniff=(json_keys("iteration_times"), json_name("step_times")),
)
_ROCPROF_HEADER: Final = re.compile(r'"?Name"?,"?Calls"?,"?TotalDurationNs\b')
NVPROF_MARK: Final = "Time(%)"
"""Each table of nvprof has it in its header."""
NVPROF_HEADER: Final = re.compile(
    r"^[ \t]*+(?:Type[ \t]+)?Time\(%\)[ \t]+Time[ \t]+Calls[ \t]+Avg[ \t]+Min[ \t]+Max[ \t]+Name\b",
    re.MULTILINE,
)
SUMMED_TABLE: Final = Format(
    kind="summed_table",
    description="times by name that rocprof --stats or rocprofv3 --stats sum up",
    sniff=(text_start(_ROCPROF_HEADER, 256),),
    has_own_metrics=True,
    read_by_line=True,
)
NVPROF_TABLE: Final = Format(
    kind="nvprof_table",
    description="times by name that nvprof prints, among what the program prints",
    # Behind the lines of logs: such a text is a log too.
    sniff=(text_search(NVPROF_HEADER, Priority.TEXT_LINES, words=(NVPROF_MARK,)),),
    has_own_metrics=True,
    read_by_line=True,
)


_CARD_KEY = re.compile(r"^(?:\{\s*)?[\"']?(?:workload|metric_source)[\"']?\s*:", re.MULTILINE)
_CARD_NAMES = ("workload_card.yaml", "workload_card.yml")


def _is_card(sample: FileSample) -> Match | None:
    if sample.readable is None or not sample.is_named_yaml:
        return None
    text = sample.readable
    has_key = ("workload" in text or "metric_source" in text) and _CARD_KEY.search(text)
    return Match() if has_key or sample.lower_name in _CARD_NAMES else None


WORKLOAD_CARD: Final = Format(
    kind="workload_card",
    description="what a job trains, in YAML",
    sniff=(Rule(Priority.YAML, _is_card),),
)


_SNAPSHOT_BEGIN: Final = 1 << 12
_SNAPSHOT_KEYS: Final = (b"segments", b"device_traces", b"segment_type", b"allocated_size")


def _is_snapshot(sample: FileSample) -> Match | None:
    is_named = "snapshot" in sample.lower_name
    is_held = any(key in sample.data for key in _SNAPSHOT_KEYS)
    if not is_pickle(sample.data) or not (is_held or is_named):
        return None
    from ccltui.parsers.text.plain_pickle import read_plain_pickle  # noqa: PLC0415  (few files need it)

    try:
        read_plain_pickle(sample.data[:_SNAPSHOT_BEGIN], shown="")
    except TraceError as error:
        why = f"at byte {error.offset or 0:,}: {error.message}"
        return Match(
            f"not a memory snapshot of plain values ({why}): never loaded, it could run code"
        )
    return Match()


MEMORY_SNAPSHOT: Final = Format(
    kind="memory_snapshot",
    description="a memory snapshot of PyTorch: what one process holds on its devices",
    sniff=(Rule(Priority.BINARY, _is_snapshot),),
    rank_in_name=True,
    has_own_metrics=True,
)


_NCCL_EXAMPLE: Final = re.compile(
    rb'"cat"\s*:\s*"(?:GROUP|COLL|P2P)(?:_API)?"|"cat"\s*:\s*"(?:PROXY(?:_STEP|_CTRL)?|NET(?:_IB'
    rb'|_SOCK)?|KERNEL_LAUNCH|CE_(?:COLL|SYNC|BATCH))"'
)
"""Categories that the profilers of PyTorch do not write; their own begin in lower case."""
_NCCL_LINES: Final = re.compile(rb'"(?:recordType|type)"\s*:\s*"(?:ProfilerLifecycle|ncclProfile)')


def _nccl_events(sample: FileSample) -> Match | None:
    """A list that begins as one of trace events does: Kineto's rules would take it."""
    document = sample.json
    if document is None:
        return None
    if _NCCL_LINES.search(document.data):
        return Match()
    return Match() if document.is_list and _NCCL_EXAMPLE.search(document.data) else None


NCCL_PROFILER: Final = Format(
    kind="nccl_profiler",
    description="events of a profiler plug-in of NCCL, which are counted: each process has a clock "
    "of its own",
    sniff=(Rule(Priority.JSON_CONTENT, _nccl_events),),
    read_by_line=True,
)
