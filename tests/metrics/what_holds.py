"""What must hold of each metric when its job is cut in two, slowed down or doubled.

A metric that is in none of these tables fails `test_metrics_every_property`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

Leaf = float | int | str | bool | None

ADDS: Mapping[str, tuple[str, ...]] = {
    "alltoall_imbalance": ("matrix_bytes.*", "num_exchanges", "received_bytes.*", "sent_bytes.*"),
    "blame_chain": ("num_blamed",),
    "busbw": ("num_collectives", "by_locality.*.message_bytes", "by_locality.*.n"),
    "coll_call_num": ("total_calls", "calls_by_type.*", "calls_per_rank.*", "calls_per_step.*"),
    "collective_mismatches": ("num_matched",),
    "collective_volume": (
        *("total_message_bytes", "total_wire_bytes", "num_collectives"),
        *("by_type.*.*_bytes", "by_type.*.num_collectives"),
        *("by_dim.*.*_bytes", "by_dim.*.num_collectives"),
    ),
    "comm_comp_overlap": (
        *("comm_time_ms", "comp_time_ms", "overlap_time_ms", "exposed_comm_ms", "mem_time_ms"),
        *("idle_ms", "window_ms", "comm_sum_ms", "comp_sum_ms", "num_comm_kernels"),
        *("num_comp_kernels", "across_ranks.*_ms.mean", "by_dim.*.comm_time_ms"),
        *("by_dim.*.exposed_comm_ms", "by_dim.*.num_comm_kernels", "by_type.*.comm_time_ms"),
    ),
    "communication_fraction": ("comm_time_ms", "busy_ms"),
    "dominant_kernel": ("kernel_time_ms", "num_kernels"),
    "exposed_communication": (
        *("exposed_ms", "comm_time_ms", "per_rank.*.exposed_ms"),
        *("by_dim.*.exposed_ms", "by_type.*.exposed_ms"),
    ),
    "fix_first": ("lost_ms", "window_ms", "per_rank.*.lost_ms"),
    "gpu_busy": ("busy_ms", "useful_busy_ms", "window_ms"),
    "graph_nodes": ("num_events",),
    "idle_causes": ("idle_ms", "host_late_ms", "by_cause.*.ms", "per_rank.*_ms"),
    "idle_ratio": ("idle_ms", "window_ms", "per_rank.*.idle_ms", "per_rank.*.window_ms"),
    "iter_time": ("num_iterations", "per_rank.*.n"),
    "kernel_categories": (
        *("work_time_ms", "by_category.*.ms", "by_category.*.calls", "per_rank.*_ms"),
    ),
    "kernels": ("work_time_ms", "num_events"),
    "launch_bound": ("launch_bound_ms", "num_launches", "per_rank.*.launch_bound_ms"),
    "link_utilization": ("num_collectives",),
    "memory_transfer": (
        *("uncovered_mem_ms", "mem_time_ms", "num_copies", "total_bytes"),
        *("by_kind.*.bytes", "by_kind.*.count", "by_kind.*.time_ms", "per_rank.*.*mem*_ms"),
    ),
    "modules": ("num_events",),
    "moe_fraction": ("moe_ms", "expert_comm_ms", "kernel_time_ms"),
    "network_utilization": ("wire_bytes", "by_dim.*.wire_bytes", "by_locality.*.wire_bytes"),
    "node_locality": (
        *("intra_node_bytes", "intra_node_ms"),
        *("by_dim.*.intra_node_bytes", "by_type.*.intra_node_bytes"),
    ),
    "operators": ("num_events",),
    "parallelism": (
        *("comm_ms", "exposed_ms", "per_rank.*_ms", "dimensions.*.calls", "dimensions.*_bytes"),
        *("dimensions.*.comm_ms", "dimensions.*.exposed_ms", "groups.*.calls"),
    ),
    "pipeline_bubble": ("total_time_ms",),
    "rank_imbalance": ("per_rank.*.comp_time_ms", "comp_time_ms.mean"),
    "run_compare": ("num_steps",),
    "step_composition": ("window_ms",),
    "straggler_cause": ("num_blamed", "blamed_lag_ms", "num_examined"),
    "straggler_lag": (
        *("num_collectives", "ties", "wait_us.*"),
        *("blame.*.caused_wait_us", "blame.*.last_count"),
    ),
    "temporal_breakdown": (
        *("window_ms", "idle_ms", "comp_only_ms", "comm_only_ms", "overlap_ms", "mem_only_ms"),
        *("other_comm_ms", "exclusive_ms.*", "per_rank.*_ms"),
    ),
    "trace_proxy_latency": ("num_iterations",),
    "trace_tflops": ("total_flops", "num_products"),
    "traffic_distribution": (
        *("total_bytes", "tp_bytes", "ep_bytes", "total_comm_calls"),
        *("by_dim.*.calls", "by_dim.*_bytes", "by_dim.*.time_ms", "by_type.*.time_ms"),
    ),
    "wait_vs_transfer": (
        *("wait_ms", "transfer_ms", "num_collectives", "per_rank.*_ms", "by_dim.*_ms"),
    ),
    "verdict": ("num_steps",),
    "what_if_no_straggler": ("num_steps",),
}
"""Keys whose values of two windows that make up the job add up to that of the whole job."""

NO_SUMS: Mapping[str, str] = {
    "clock_offsets": "clocks are told from the whole job, whatever the window",
    "critical_path": "the way back through a window begins at its own end, on another rank",
    "hockney": "a fit",
    "mfu": "a rate: of steps that are whole",
    "sm": "shares alone",
    "step_variability": "a spread of steps",
    "traffic_window": "a window cuts the slack between two bursts",
}

BETWEEN: tuple[str, ...] = (
    *("blame_chain", "busbw", "comm_comp_overlap", "communication_fraction", "gpu_busy"),
    *("idle_ratio", "iter_time", "kernel_categories", "link_utilization", "mfu", "moe_fraction"),
    *("modules", "operators", "parallelism"),
    *("network_utilization", "node_locality", "sm", "straggler_cause", "step_composition"),
    *("straggler_lag", "temporal_breakdown", "trace_proxy_latency", "trace_tflops"),
    *("wait_vs_transfer", "clock_offsets"),
)
"""Metrics whose headline is a weighted mean: that of the whole lies between those of its parts."""

Kind = Literal["time", "rate", "same", "text"]

SCALES: Mapping[str, Mapping[str, Kind]] = {
    "*": {
        "*.n": "same",
        "*.ms": "time",
        "*floor_us": "same",  # a constant of the method, as is merge_us
        "*merge_us": "same",
        "*peak_GBps": "same",
        "*flops": "same",
        "*peak_tflops_per_gpu": "same",
    },
    "graph_nodes": {"*.median_us_per_rank.*": "time"},
    "hockney": {"*.beta_us_per_MB": "time"},
    "iter_time": {"per_rank.*.n": "same", "per_rank.*": "time", "across_ranks.*": "time"},
    "link_utilization": {"*_ratio": "rate"},
    "mfu": {"*mfu_pct": "rate", "model_tflops_per_gpu": "rate"},
    "network_utilization": {
        "network_utilization_ratio": "rate",
        "wire_GBps_while_communicating": "rate",
    },
    "run_compare": {"rows.*.n": "same", "rows.*.n_against": "same", "rows.*": "time"},
    "straggler_cause": {"per_rank.*": "time"},
    "kernels": {"products.*.tflops": "rate", "products.*.tbps": "rate"},
    "operators": {"operators.*.tflops": "rate"},
    "throughput_tokens": {"throughput_tokens_per_s_by_total_time": "rate"},
    "trace_tflops": {"of_peak_pct": "rate", "trace_tflops": "rate", "per_rank.*": "rate"},
}
"""Leaves whose name does not tell how they follow the speed of the job; own rules go first."""

_TIMES = ("_ms", "_us", "_ns", "_s")
_RATES = ("GBps", "_per_s", "_per_s_per_gpu", "_per_s_per_dp_rank")

DOUBLES: Mapping[str, tuple[str, ...]] = {
    "alltoall_imbalance": ("num_exchanges",),
    "blame_chain": ("num_blamed", "num_followed"),
    "busbw": ("num_collectives",),
    "coll_call_num": ("total_calls", "num_traces"),
    "collective_mismatches": ("num_matched",),
    "collective_volume": (
        *("total_message_bytes", "total_wire_bytes", "num_collectives", "message_bytes_per_step"),
    ),
    "comm_comp_overlap": ("num_comm_kernels", "num_comp_kernels", "uncorrelated"),
    "dominant_kernel": ("num_kernels",),
    "graph_nodes": ("num_events",),
    "idle_ratio": ("num_gaps",),
    "kernels": ("num_events",),
    "launch_bound": ("num_gaps", "num_gaps_unknown", "num_launches"),
    "link_utilization": ("num_collectives",),
    "memory_transfer": ("total_bytes", "num_copies"),
    "mfu": ("tokens_per_s", "total_count"),
    "modules": ("num_events",),
    "network_utilization": ("wire_bytes",),
    "node_locality": ("intra_node_bytes",),
    "operators": ("num_events",),
    "pipeline_bubble": ("bubble_time_ms", "total_time_ms", "num_ranks"),
    "straggler_cause": ("num_blamed", "num_examined", "blamed_lag_ms", "explained_lag_ms"),
    "straggler_lag": ("num_collectives", "num_ranks", "ties"),
    "throughput_tokens": (
        *(
            "throughput_tokens_per_s",
            "throughput_tokens_per_s_by_total_time",
            "total_tokens",
            "batch_size",
        ),
        "tokens_per_step",
    ),
    "token_to_expert_assignment": ("total_tokens",),
    "trace_proxy_latency": ("num_iterations",),
    "trace_tflops": ("total_flops", "num_products"),
    "traffic_distribution": ("tp_bytes", "ep_bytes", "total_bytes", "total_comm_calls"),
    "traffic_window": ("num_windows",),
    "wait_vs_transfer": ("wait_ms", "transfer_ms", "num_collectives"),
    "verdict": ("num_ranks",),
}
"""Keys that are twice as large for two copies of a job side by side; all others stay."""

PARTS: tuple[str, ...] = (
    *("by_dim.*", "by_type.*", "by_kind.*", "by_category.*", "by_cause.*", "by_locality.*"),
    *("causes.*", "windows.*", "idle_gaps.*", "across_ranks.*", "comp_time_ms.*", "exclusive_ms.*"),
)
"""Tables of parts that two copies of a job share, unlike those of ranks and groups."""

SUMMED: Mapping[str, tuple[str, ...]] = {
    "memory_transfer": ("by_kind.*.time_ms",),
    "straggler_cause": ("causes.*_ms", "causes.*.confidence.*"),
    "traffic_window": ("*.total_us",),
    "wait_vs_transfer": ("by_*_ms",),
}
"""Leaves of these tables that are sums over ranks; counts and bytes are, other times are means."""

_COUNTS = ("calls", "count", "n", "num_*", "*bytes")


def is_summed(metric: str, path: str) -> bool:
    """Whether a leaf of `PARTS` is a sum over ranks."""
    key = path.rpartition(".")[2]
    counted = any(fnmatchcase(key, pattern) for pattern in _COUNTS)
    return counted or any(fnmatchcase(path, pattern) for pattern in SUMMED.get(metric, ()))


NOT_DOUBLED: Mapping[str, str] = {
    "blame_chain.root_share": "of two ranks alike one is the root, with half of its share",
    "blame_chain.root_share_of_time": "likewise",
    "straggler_cause.main_share": "likewise",
    "straggler_cause.main_share_of_time": "likewise",
    "straggler_lag.worst_share_of_time": "likewise",
    "fix_first": "the three largest losses are of more groups",
    "what_if_no_straggler.m_w": "3 % of 4 workers and of 8 are one worker",
    "run_compare": "runs of different size are not compared",
    "token_to_expert_assignment.entropy_bits": "one bit more for twice as many experts",
}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Dotted path and value of everything in a JSON document."""
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        yield path, value
    for key, inner in items:
        yield from leaves(inner, f"{path}.{key}" if path else str(key))


def is_number(value: Leaf) -> bool:
    """Whether a leaf is a number; a truth is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def kind_of(metric: str, path: str) -> Kind:
    """How a leaf follows the speed of the job: by a rule above, else by its unit."""
    for rules in (SCALES.get(metric, {}), SCALES["*"]):
        for pattern, kind in rules.items():
            if fnmatchcase(path, pattern):
                return kind
    keys = path.split(".")
    if any(key.endswith(_RATES) for key in keys):
        return "rate"
    return "time" if any(key.endswith(_TIMES) for key in keys) else "same"


def is_share(path: str) -> bool:
    """Whether a number is a part of something; imbalances and ratios of rates are not."""
    key = path.rpartition(".")[2]
    if "imbalance" in key or key in ("max_min_ratio", "of_mean_ratio"):
        return False
    return key.endswith(("_ratio", "_share", "_fraction", "coverage")) or key == "share"
