"""The built-in metrics: one file and one line each.

A line names the file below this folder. The metric in it has the name of the file.
"""

from typing import Final

SEED: Final = (
    "communication.coll_call_num",
    "throughput.throughput_tokens",
    "time.iter_time",
    "communication.comm_comp_overlap",
    "time.pipeline_bubble",
    "communication.traffic_distribution",
    "stragglers.straggler_lag",
)
"""The seven metrics of the original collection, in its order."""

BUILT_IN: Final = (
    *SEED,
    "communication.alltoall_imbalance",
    "stragglers.blame_chain",
    "communication.busbw",
    "stragglers.clock_offsets",
    "cluster.cluster_outliers",
    "cluster.cluster_plausibility",
    "stragglers.collective_mismatches",
    "communication.collective_volume",
    "communication.communication_fraction",
    "time.critical_path",
    "kernels.dominant_kernel",
    "communication.exposed_communication",
    "stragglers.fix_first",
    "time.gpu_busy",
    "communication.hockney",
    "time.idle_causes",
    "time.idle_ratio",
    "kernels.kernel_categories",
    "kernels.kernels",
    "time.launch_bound",
    "communication.link_utilization",
    "kernels.memory_transfer",
    "throughput.mfu",
    "kernels.modules",
    "kernels.moe_fraction",
    "cluster.nccl_tests_busbw",
    "cluster.nccl_transport",
    "communication.network_utilization",
    "communication.node_locality",
    "kernels.operators",
    "communication.parallelism",
    "stragglers.rank_imbalance",
    "throughput.run_compare",
    "runs.run_completeness",
    "runs.run_loss",
    "runs.run_nccl_calls",
    "runs.run_step_time",
    "runs.run_throughput",
    "kernels.sm",
    "time.step_composition",
    "time.step_variability",
    "stragglers.straggler_cause",
    "time.temporal_breakdown",
    "inference.token_to_expert_assignment",
    "inference.tpot",
    "inference.trace_proxy_latency",
    "throughput.trace_tflops",
    "communication.traffic_window",
    "inference.ttft",
    "stragglers.verdict",
    "communication.wait_vs_transfer",
    "stragglers.what_if_no_straggler",
)
"""All built-in metrics in the order of every list: after the seed by name."""
