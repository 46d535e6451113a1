"""Read result files of runs: serving benchmarks, expert loads, step times, tables of totals."""

from __future__ import annotations

import re
from typing import Final

from ccltui.parsers.format import (
    Format,
    Priority,
    json_keys,
    json_name,
    text_search,
    text_start,
)

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
