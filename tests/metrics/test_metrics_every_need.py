"""Each thing that a metric says it needs, taken away: refused, with the reason that names it.

Needs are worded for people; here each wording has the changes that take it away, and the reason
to expect. A wording with alternatives ("X, or Y") is refused without any of them, in words that
name them, and answered with one alone. A metric whose wording is not here fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from factories import Coll, allreduce, job, rank_trace
from full_jobs import JOBS, RANKS, trained
from msgspec import Struct, field
from msgspec.structs import replace
from parts_of_jobs import (
    Change,
    Parts,
    after,
    each,
    no_card,
    no_collectives,
    no_devices,
    no_experts,
    no_groups,
    no_hosts,
    no_kernels,
    no_launches,
    no_markers,
    no_shapes,
    no_sizes,
    not_stating,
    on_the_host,
    overriding,
    ranks,
    stating,
    whole,
    with_arguments,
    without_columns,
    without_names,
)

from ccltui.metrics.catalog.throughput import run_compare
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import find, metrics
from ccltui.metrics.view.job_view import View
from ccltui.parsers.ingest.load import Failed
from ccltui.parsers.job import Job, open_job


class Need(Struct, frozen=True):
    """Ways to lack something, and to have but one form of it.

    ``without`` maps a reason code to a change that ends in it; ``words`` are in each message;
    ``enough`` are changes after which the metric still answers: one alternative alone.
    """

    without: Mapping[str, Change]
    words: tuple[str, ...] = ()
    enough: Mapping[str, Change] = field(default_factory=dict)


def other_hosts(parts: Parts) -> Parts:
    """No collective links the ranks, and each is on a host of its own."""
    apart = each(lambda trace: replace(trace, host=f"node-{trace.rank}"))
    return after(no_collectives, apart)(parts)


LAG_SOURCE = Need(
    {"no_gpu_events": no_kernels},
    ("CPU-only", "recorded collective"),
    {"gloo": on_the_host, "kernels": without_names("annotations", lambda _: False)},
)
SIZES = Need({"no_message_size": no_sizes, "no_collectives": no_collectives})
TWO_RANKS = Need({"single_rank": ranks(1)}, ("1 of 4 ranks",), {"two": ranks(2)})
NEEDS: Mapping[str, Need] = {
    "GPU kernels": Need({"no_gpu_events": no_kernels}, ("CPU-only trace",)),
    "GPU kernels of all ranks": Need({"no_gpu_events": no_kernels}, ("device work",)),
    "GPU kernels, or gloo's annotations": LAG_SOURCE,
    "GPU kernels, or one family of recorded collectives": Need(
        {"no_gpu_events": no_kernels}, ("CPU-only", "recorded collective"), {"host": on_the_host}
    ),
    "device events": Need({"no_gpu_events": no_kernels}, ("no device work",)),
    "collective kernels": Need({"no_collectives": no_collectives}),
    "collectives": Need({"no_collectives": no_collectives}),
    "collectives with sizes": SIZES,
    "message sizes": Need({"no_message_size": no_sizes}, ("size",)),
    "all-to-alls with sizes": SIZES,
    "all ranks of a group": Need({"missing_ranks": ranks(3)}, ("all ranks of its group",)),
    "collectives that all ranks of a group wait for": Need(
        {"clock_unknown": other_hosts}, ("collective",), {"one host": no_collectives}
    ),
    "collectives of 2 parallel dimensions": Need(
        {
            "no_collectives": no_collectives,
            "not_applicable": without_names("gpu", lambda name: "SendRecv" in name),
        }
    ),
    "process groups": Need({"no_process_groups": after(no_groups, no_card)}),
    "process groups, or a card that states them": Need(
        {"not_applicable": after(no_groups, no_card)},
        ("dimensions",),
        {"groups": no_card},
    ),
    "2 ranks of one group": TWO_RANKS,
    "2 ranks of one group (of one rank: a lower bound)": Need(
        {"single_rank": ranks(1)}, ("lower bound",), {"two": ranks(2)}
    ),
    "2 ranks": TWO_RANKS,
    "2 ranks that run the same program": TWO_RANKS,
    "5 calls of 2 sizes of one group": Need(
        {"not_applicable": with_arguments(in_elems=100, out_elems=100)},
        ("calls of 1 size", "2 sizes"),
    ),
    "launch records (correlation ids)": Need({"not_applicable": no_launches}, ("launch record",)),
    "more with launch records and several ranks": Need({"single_rank": ranks(1)}),
    "step markers": Need({"no_step_markers": no_markers}),
    "step markers in both runs": Need({"no_step_markers": no_markers}),
    "step markers of 3 steps": Need(
        {
            "no_step_markers": no_markers,
            "not_applicable": without_names("annotations", lambda name: name == "ProfilerStep#2"),
        }
    ),
    "step markers (in a Kineto trace; else in execution traces)": Need(
        {"no_step_markers": no_markers}
    ),
    "step markers, or a call that recurs": Need({}, enough={"period": no_markers}),
    "step markers, or passes of vLLM": Need({"no_step_markers": no_markers}),
    "step markers, or the whole trace is one": Need({}, enough={"whole": no_markers}),
    "ranges of vLLM or SGLang, or passes that the kernels show": Need(
        {"no_step_markers": no_markers}, ("vLLM", "SGLang")
    ),
    "replays of CUDA or HIP graphs": Need(
        {"not_applicable": without_columns("gpu", "graph_node", "graph", "module")}, ("graph",)
    ),
    "the directory of the other run": Need({"no_trace": overriding(against="")}, ("against",)),
    "pipeline degree, groups or point-to-point metadata": Need(
        {"no_process_groups": after(no_groups, with_arguments(op=-1), not_stating("pp"))},
        ("pipeline is unknown",),
    ),
    "workload card or overrides: batch_size, seq_len, data-parallel degrees": Need(
        {"no_card": no_card, "card_incomplete": not_stating("seq_len")},
        ("seq_len",),
        {
            "overrides": after(
                no_card, overriding(batch_size=4, seq_len=16, batch_size_scope="global")
            )
        },
    ),
    "workload card or overrides: model architecture, precision, batch_size, seq_len": Need(
        {"no_card": no_card, "card_incomplete": not_stating("num_layers")},
        ("num_layers",),
        {"overrides": after(no_card, overriding(**{**JOBS["training"][1]}))},
    ),
    "a known device, or peak_tflops": Need(
        {"unknown_peak": no_devices},
        ("device", "peak_tflops"),
        {"peak": after(no_devices, overriding(peak_tflops=312))},
    ),
    "a known device, or the peak of the links": Need(
        {"unknown_peak": no_devices},
        ("device", "link_peak_GBps"),
        {"peak": after(no_devices, overriding(link_peak_GBps=300))},
    ),
    "host names, or count_per_node of a card": Need(
        {"card_incomplete": no_hosts, "no_card": after(no_hosts, no_card)},
        ("traces name no hosts", "count_per_node"),
        {"card": after(no_hosts, stating(count_per_node=2)), "traces": no_card},
    ),
    "names of experts, routing or grouped products": Need(
        {"not_applicable": no_experts},
        ("kernel, operator or group",),
        {"operators": no_collectives, "groups": without_names("cpu_ops", lambda n: "moe" in n)},
    ),
    "operators with shapes (record_shapes=True), or an execution trace": Need(
        {"not_applicable": no_shapes}, ("record_shapes=True", "execution trace")
    ),
    "a recording of any kind": Need({}, enough={"hosts": on_the_host, "steps": no_markers}),
    "operators": Need({"not_applicable": no_shapes}, ("no operator was recorded",)),
    "launch records or External ids": Need({"not_applicable": no_launches}, ("launch record",)),
    "launch records": Need({"not_applicable": no_launches}, ("launch record",)),
    "nn.Module frames or ranges of the user": Need(
        {"not_applicable": no_markers}, ("nn.Module", "range of the user")
    ),
    "expert-load side files, or all-to-alls with splits between known ranks": Need(
        {"no_side_file": no_sizes}, ("side file", "splits")
    ),
}
SIDE_FILES: Mapping[str, tuple[str, ...]] = {
    "cluster benchmark (YAML)": ("cluster benchmark",),
    "cluster benchmark (YAML) with values of at least 3 devices or hosts": ("cluster benchmark",),
    "log of NCCL (NCCL_DEBUG=INFO)": ("NCCL",),
    "dumps of a flight recorder, log in which a watchdog gave up, or report of ncclras": (
        *("flight recorder", "watchdog", "RAS"),
    ),
    "log with DeepSpeed's summary of communication": ("DeepSpeed",),
    "memory snapshot of PyTorch": ("memory snapshot",),
    "output of nccl-tests": ("nccl-tests",),
    "records of NCCL Inspector": ("NCCL Inspector",),
    "records of NCCL Inspector of all members of a communicator": ("NCCL Inspector",),
    "result file of vLLM, SGLang, genai-perf or AIPerf": ("vLLM", "SGLang", "genai-perf"),
    "run directory with the text of nsys stats, report nvtx_sum": ("run",),
    "run directory: training_metrics.json, training_steps.jsonl or a training log": (
        *("training_metrics.json", "training_steps.jsonl", "log"),
    ),
}
PARTLY: Mapping[tuple[str, str], str] = {
    ("busbw", "single_rank"): "a lower bound",
    ("critical_path", "single_rank"): "waiting counts as communication",
    ("parallelism", "single_rank"): "no waiting",
    ("parallelism", "no_process_groups"): "a row of an unknown dimension",
    ("pipeline_bubble", "no_process_groups"): "idle time instead",
    ("traffic_distribution", "no_message_size"): "shares of time instead",
    ("traffic_distribution", "no_process_groups"): "bytes of an unknown dimension",
}
"""Answered in part, with the reason."""

WITHOUT_IT: Mapping[tuple[str, str], str] = {
    ("blame_chain", "process groups"): "one group is assumed where no file names any",
    ("link_utilization", "process groups"): "as blame_chain",
}


@pytest.fixture(autouse=True)
def _other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str | Path, **_: Any) -> Job:
        return job(*(trained(rank, float(Path(path).name)) for rank in range(RANKS)))

    monkeypatch.setattr(run_compare, "open_job", opened)


PAIRS = [(metric, need) for metric in metrics().values() for need in metric.needs]
OF_JOBS = [(metric, need) for metric, need in PAIRS if need not in SIDE_FILES]


def base_of(metric: Metric) -> str:
    return next(name for name in JOBS if metric.run(whole(name).view).value is not None)


def test_every_wording_is_known_and_in_use() -> None:
    assert {need for _, need in PAIRS} == {*NEEDS, *SIDE_FILES}


@pytest.mark.parametrize(
    ("metric", "need", "code"),
    [
        pytest.param(metric, need, code, id=f"{metric.name}-{need}-{code}")
        for metric, need in OF_JOBS
        if (metric.name, need) not in WITHOUT_IT
        for code in (NEEDS[need].without if need in NEEDS else ("unknown wording",))
    ],
)
def test_without_it_the_reason_names_it(metric: Metric, need: str, code: str) -> None:
    result = metric.run(NEEDS[need].without[code](whole(base_of(metric))).view)

    text = "; ".join(reason.message for reason in result.reasons)
    assert code in {reason.code for reason in result.reasons}, (result.reason, text)
    assert all(word in text for word in NEEDS[need].words), text
    if (metric.name, code) in PARTLY:
        assert result.status == "partial"
    else:
        assert (result.status, result.value, result.reason) == ("unavailable", None, code)
        assert all(value is None for value in result.details.values())


@pytest.mark.parametrize(
    ("metric", "need", "alternative"),
    [
        pytest.param(metric, need, one, id=f"{metric.name}-{need}-{one}")
        for metric, need in OF_JOBS
        for one in (NEEDS[need].enough if need in NEEDS else ())
    ],
)
def test_one_alternative_is_enough(metric: Metric, need: str, alternative: str) -> None:
    result = metric.run(NEEDS[need].enough[alternative](whole(base_of(metric))).view)

    # of ranks that are missing, what_if_no_straggler gives bounds alone
    known = result.value if result.value is not None else result.details.get("saved_bounds_ms")
    assert known is not None, [reason.message for reason in result.reasons]


@pytest.mark.parametrize(
    ("metric", "need"),
    [pytest.param(m, need, id=f"{m.name}-{need}") for m, need in PAIRS if need in SIDE_FILES],
)
def test_without_the_file_the_reason_names_it(tmp_path: Path, metric: Metric, need: str) -> None:
    (tmp_path / "notes.log").write_text("nothing that is measured\n")

    result = metric.run(View(open_job(tmp_path)))

    assert (result.status, result.value, result.reason) == ("unavailable", None, "no_side_file")
    assert all(word in result.reasons[0].message for word in SIDE_FILES[need])
    assert all(value is None for value in result.details.values())


def test_the_bandwidth_of_one_rank_in_no_group_is_not_zero_but_unknown() -> None:
    alone = rank_trace(0, gpu=[allreduce(0, 10, Coll("allreduce", 1000, 1000, group=-1))])
    stated = rank_trace(
        0, gpu=[allreduce(0, 10, Coll("allreduce", 1000, 1000, group=-1, group_size=4))]
    )

    refused = find("busbw").run(View(job(alone)))
    bound = find("busbw").run(View(job(stated)))

    assert (refused.status, refused.reason) == ("unavailable", "no_process_groups")
    assert (bound.status, bound.reason) == ("partial", "single_rank")
    assert bound.value == 0.6  # 4000 bytes * 2 * 3 / 4 over 10 us


def truncated(parts: Parts) -> View:
    return each(lambda trace: replace(trace, truncated=True))(parts).view


def with_an_unreadable_file(parts: Parts) -> View:
    view = parts.view
    failure = Failed("rank9_trace.json", "rank9_trace.json: no JSON in it")
    whole_job = job(*parts.ranks, card=view.job.card, failures=(failure,))
    return View(whole_job, view.options)


@pytest.mark.parametrize("metric", {m.name: m for m, _ in OF_JOBS}.values(), ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("lessened", "code"),
    [
        (lambda parts: ranks(3)(parts).view, "missing_ranks"),
        (truncated, "truncated_trace"),
        (with_an_unreadable_file, "no_trace"),
    ],
    ids=("a rank is missing", "a file ends early", "a file cannot be read"),
)
def test_a_part_of_a_job_is_said_to_be_one(
    metric: Metric, lessened: Callable[[Parts], View], code: str
) -> None:
    result = metric.run(lessened(whole(base_of(metric))))

    assert result.status != "ok"
    if result.status == "partial":
        assert code in {reason.code for reason in result.reasons}
