"""Every metric against literal truth: the training job of `full_jobs`, worked out by hand.

Step i of rank r (0 to 3), in µs: a product of 100 + 40 r + 10 i, a reduction of 4000 bytes from
its end until 400, a copy of 15, a small kernel of 20, a reduction of 36 bytes of 100 - 25 r until
600, exchanges of 10 + 5 i and 20 + 5 i of 120 and 240 kB times i + 1. The device's work of a step
begins at 1000 i + 10 and lasts 760 + 5 i; all three make 2295 for each rank, and from the first
work to the last end 2770. Sums below are over steps, in µs.

A metric whose truth in this job would be a plain 0 or 1 names the test that holds it to another.
A new metric without either fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from full_jobs import view_of

from ccltui.metrics.registry import metrics

WORK = 2295
WINDOW = 2770
COMM = 1230 - 195 * 1.5  # of rank r 3 * (410 - 65 r); the mean over ranks
COMP = 390 + 120 * 1.5
REDUCTIONS, PRODUCTS, EXCHANGES, SMALL, COPIES = 3270, 2040, 480, 240, 180  # over all ranks
KERNELS = REDUCTIONS + PRODUCTS + EXCHANGES + SMALL
IDLE = WINDOW - COMM - COMP - 45
WIRE = 2 * 3 / 4 * 3 * 4036 + 3 / 4 * 2_160_000  # bytes of one rank: reductions, exchanges
SHORTEST = 450 + 75 + 120  # the fastest rank's reductions, and exchanges, which are equal
TOKENS_PER_S = 4 * 16 / 900e-6

TRUTH: Mapping[str, float] = {
    "busbw": WIRE / SHORTEST / 1e3,
    "coll_call_num": 4 * 3 * 4,
    "collective_volume": 3 * 4036 + 2_160_000,
    "communication_fraction": COMM / (WINDOW - IDLE),
    # Backwards from the end: rank 3's products 720 + 30 small, reductions 450 + 75, exchanges 120
    "critical_path": (450 + 75 + 120) / WORK,
    "dominant_kernel": REDUCTIONS / KERNELS,
    "exposed_communication": COMM / 1000,
    # waiting for rank 3, which a replay proves: such a cause comes before up to four times its
    # share, here before idle time without a launch record, 577.5
    "findings": 292.5 / WINDOW,
    # idle without a launch record 577.5, reductions but for waiting 525, waiting for rank 3 292.5
    "fix_first": (577.5 + 525 + 292.5) / WINDOW,
    "gpu_busy": (WINDOW - IDLE) / WINDOW,
    "graph_nodes": (100 + 120 + 10) / (100 + 40 + 10),  # rank 3 and the median of the others
    # Theil-Sen over (120, 10), (240, 15), (360, 20), (240, 20), (480, 25), (720, 30) kB and µs:
    # of 14 slopes the middle two are 1/30 and 1/24 µs a kB
    "hockney": 1 / ((1 / 30 + 1 / 24) / 2),
    # the small kernel is launched 10 after the copy has ended, the product of the next step 5
    # before it begins, after idle times of 240 and 235
    "idle_causes": (3 * 10 + 235 + 230) / 1000,
    "idle_ratio": IDLE / WINDOW,
    "iter_time": 0.9,
    "kernel_categories": PRODUCTS / (KERNELS + COPIES),
    "kernels": (KERNELS + COPIES) / 4 / 1000,
    # of gaps before the copies and before the small kernels the latter, and two between steps
    "launch_bound": 5 / 8,
    "link_utilization": WIRE / SHORTEST / 1e3 / 300,
    "memory_transfer": 0.045,
    # 6 * (10,000 - 100) + 12 * 2 layers * 2 heads * 4 * 16 positions, on four A100
    "mfu": 100 * (59_400 + 3_072) * TOKENS_PER_S / (4 * 312e12),
    "modules": (PRODUCTS + COPIES) / (KERNELS + COPIES),  # the range covers their launches
    "moe_fraction": (EXCHANGES + SMALL) / KERNELS,
    "network_utilization": WIRE / WINDOW / 1e3,
    # reductions and exchanges have no launch record
    "operators": (PRODUCTS + COPIES + SMALL) / (KERNELS + COPIES),
    "rank_imbalance": (390 + 120 * 3) / COMP,
    "sm": (WINDOW - IDLE) / WINDOW,
    "step_composition": COMP / WINDOW,
    "straggler_lag": (120 + 75 + 0 + 0) / 4,
    "temporal_breakdown": COMP / WINDOW,
    "throughput_tokens": TOKENS_PER_S,
    "trace_proxy_latency": 0.03,  # of the serving job: one product of 30 a pass
    "trace_tflops": 3 * 2 * 64 * 32 * 16 / WINDOW / 1e6,
    "traffic_distribution": 4 * (3 * 4036 + 2_160_000),
    "traffic_window": 50,  # from the second reduction to the first exchange
    "wait_vs_transfer": 3 * (240 + 150) / (4 * COMM),
    # 1005 from end to end of a step, the first from its first work; with the second fastest rank's
    # times (140 and 125 instead of 220 and 175) 130 less
    "what_if_no_straggler": (760 + 2 * 1005) / (630 + 2 * 875),
}
ELSEWHERE: Mapping[str, str] = {
    "alltoall_imbalance": "test_alltoall_imbalance::test_one_hot_receiver_of_four",
    "blame_chain": "test_blame_chain::test_the_metric_weighs_roots_by_the_waiting_behind_them",
    "clock_offsets": "test_clock_offsets::test_the_offset_of_a_host_and_its_error_bar",
    "cluster_outliers": "test_cluster::test_the_one_slow_device_of_eight",
    "cluster_plausibility": "test_cluster::test_the_impossible_all_to_all",
    "collective_mismatches": "test_collective_mismatches::"
    "test_a_missing_collective_is_named_with_its_rank_and_number",
    "comm_comp_overlap": "test_comm_comp_overlap::test_worked_example",
    "comms_summary": "test_comms_summary_metric::test_the_sum_over_operations",
    "duration_lag": "test_inspector_metrics::test_the_late_rank_its_lag_and_since_when",
    "hang_verdict": "test_watchdog_hang::test_the_metric_counts_the_ranks_that_did_not_arrive",
    "inspector_busbw": "test_inspector_metrics::test_the_slow_pair_of_four",
    "inspector_coverage": "test_inspector_metrics::test_a_missing_number_is_not_in_the_file",
    "memory_peaks": "test_memory_peaks::test_the_peaks_of_known_events",
    "nccl_tests_busbw": "test_cluster::test_bandwidth_of_nccl_tests",
    "nccl_transport": "test_cluster::test_facts_of_nccl_logs",
    "node_locality": "test_node_locality::test_pairs_inside_and_across",
    "parallelism": "test_parallelism::test_each_dimension_by_hand",
    "pipeline_bubble": "test_pipeline_bubble::test_worked_example",
    "run_compare": "test_run_compare::test_a_change_beyond_the_spread",
    "run_completeness": "test_runs::test_a_killed_run_is_incomplete_and_lists_missing_artifacts",
    "run_loss": "test_runs::test_the_loss_of_a_run_is_its_last_step_or_the_mean_of_its_last_epoch",
    "run_nccl_calls": "test_runs::test_calls_per_backward_and_not_calls",
    "run_step_time": "test_runs::test_percentiles_of_six_samples_have_a_warning",
    "run_throughput": "test_runs::test_throughput_of_the_run_asked_for",
    "step_variability": "test_iter_time::test_spread_and_slowest_step",
    "straggler_cause": "test_cause_search::test_the_metric_adds_up",
    "token_to_expert_assignment": "test_token_to_expert_assignment::test_a_gate_log",
    "tpot": "test_serving_latency::test_time_per_token_and_gaps",
    "verdict": "test_verdict::test_the_loss_is_that_of_the_job_without_the_fault",
    "ttft": "test_serving_latency::test_a_distribution_over_requests",
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_training_job_by_hand(name: str) -> None:
    job = "serving" if name == "trace_proxy_latency" else "training"

    assert metrics()[name].run(view_of(job)).value == pytest.approx(TRUTH[name], rel=1e-9)


def test_every_metric_is_held_to_a_truth() -> None:
    assert sorted((*TRUTH, *ELSEWHERE)) == sorted(metrics())


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_other_test_is_there_and_about_it(name: str) -> None:
    module, _, test = ELSEWHERE[name].partition("::")
    (path,) = Path(__file__).parent.rglob(f"{module}.py")
    text = path.read_text()

    assert re.search(rf"^def {test}\(", text, re.MULTILINE)
    assert name in text
