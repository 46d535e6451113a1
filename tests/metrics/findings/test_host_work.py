"""Classification of host activity by the names of its ranges."""

from __future__ import annotations

import pytest
from factories import Event, rank_trace

from ccltui.metrics.findings.causes.activity import HOST_BLOCKED, HOST_WORK, HostWork
from ccltui.metrics.model import classify
from ccltui.parsers.columns import RankTrace

PYTHON_FRAMES = {
    "data_loading": "torch/utils/data/dataloader.py(729): __next__",
    "checkpoint": "torch/distributed/checkpoint/state_dict_saver.py(120): save",
    "garbage_collection": "<built-in method collect of module object at 0x7f64d2a1b4c0>",
    "compilation": "torch/_inductor/codecache.py(1500): load",
}


def us(host: HostWork, cause: str) -> float:
    return host.disjoint[cause].total_ns / 1000


def annotated(*names: str) -> RankTrace:
    rows = [Event(name, 1000.0 * nth, 100, 1) for nth, name in enumerate(names)]
    return rank_trace(0, annotations=rows)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data_loading"),
        ("get_batch", "data_loading"),
        ("## next_batch ##", "data_loading"),
        ("save_checkpoint", "checkpoint"),
        ("dcp.save", "checkpoint"),
        ("gc.collect", "garbage_collection"),
    ],
)
def test_user_ranges(name: str, cause: str) -> None:
    assert us(HostWork(annotated(name)), cause) == 100


@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#4",
        "Optimizer.step#AdamW.step",
        "activation_checkpoint_forward",
        "batch_norm",
        "nccl:all_reduce",
    ],
)
def test_enclosing_ranges_match_no_rule(name: str) -> None:
    assert all(not len(time) for time in HostWork(annotated(name)).disjoint.values())


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("cudaMalloc", "allocation"),
        ("hipFree", "allocation"),
        ("cudaHostAlloc", "allocation"),
        ("cuMemCreate", "allocation"),
        ("cudaDeviceSynchronize", "synchronisation"),
        ("hipStreamSynchronize", "synchronisation"),
        ("cudaMemcpy", "synchronisation"),
        ("cuModuleLoadData", "compilation"),
        ("cudaLaunchKernel", HOST_WORK),
        ("cudaMemcpyAsync", HOST_WORK),
        ("cudaStreamWaitEvent", HOST_WORK),
    ],
)
def test_runtime_calls(name: str, cause: str) -> None:
    host = HostWork(rank_trace(0, runtime=[Event(name, 10, 100, 1)]))

    assert {key for key, time in host.disjoint.items() if len(time)} == {cause}


@pytest.mark.parametrize("cause", PYTHON_FRAMES)
def test_python_frames(cause: str) -> None:
    frames = [Event("train.py(1): <module>", 0, 500, 1), Event(PYTHON_FRAMES[cause], 10, 100, 1)]
    trace = rank_trace(0, python=frames)

    assert us(HostWork(trace), cause) == 100


def test_running_compiled_code_is_no_compilation() -> None:
    trace = rank_trace(0, python=[Event("torch/_dynamo/eval_frame.py(574): _fn", 0, 100, 1)])

    assert not len(HostWork(trace).disjoint["compilation"])


def test_time_of_two_causes_counts_for_one() -> None:
    trace = rank_trace(
        0,
        annotations=[Event("get_batch", 0, 100, 1)],
        runtime=[Event("cudaMalloc", 50, 100, 1)],
        cpu_ops=[Event("aten::empty", 40, 160, 1)],
    )

    host = HostWork(trace)

    assert us(host, "data_loading") == 100
    assert us(host, "allocation") == 50
    assert us(host, HOST_WORK) == 50


def test_one_operation_that_lasts_is_a_standstill_and_is_named() -> None:
    trace = rank_trace(
        0,
        cpu_ops=[
            Event("aten::matmul", 0, 5100, 1),
            Event("aten::mm", 20, 5000, 1),
            Event("aten::add", 5200, 10, 1),
        ],
    )

    host = HostWork(trace)

    assert us(host, HOST_BLOCKED) == 5000
    assert us(host, HOST_WORK) == 110
    assert host.name_of(HOST_BLOCKED, 0, 5_300_000) == ("aten::mm", 5_000_000)


def test_the_name_with_most_time_is_reported() -> None:
    trace = rank_trace(
        0,
        runtime=[
            Event("cudaFree", 0, 30, 1),
            Event("cudaMalloc", 40, 50, 1),
            Event("cudaFree", 100, 30, 1),
        ],
    )

    host = HostWork(trace)

    assert host.name_of("allocation", 0, 200_000) == ("cudaFree", 60_000)
    assert host.name_of("allocation", 35_000, 95_000) == ("cudaMalloc", 50_000)
    assert host.name_of("data_loading", 0, 200_000) is None


def test_the_user_range_around_a_stall() -> None:
    trace = annotated("# forward #")

    assert HostWork(trace).around(20_000, 60_000) == ("# forward #", 40_000)
    assert HostWork(trace).around(20_000, 600_000) is None


@pytest.mark.parametrize("most", [0, 512])
def test_ranges_of_each_cause_whether_names_are_few_or_many(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Of few names all are looked at, also those that occur in other groups of events only."""
    monkeypatch.setattr(classify, "FEW_TEXTS", most)
    trace = rank_trace(
        0,
        annotations=[Event("get_batch", 0, 100, 1), Event("cudaMalloc", 300, 100, 1)],
        cpu_ops=[Event("aten::item", 500, 50, 1), Event("aten::mm", 600, 10, 1)],
        runtime=[Event("cudaMalloc", 700, 30, 1), Event("get_batch", 800, 30, 1)],
    )

    found = {
        cause: ((ranges.end_ns - ranges.start_ns).tolist(), ranges.start_ns.tolist())
        for cause, ranges in HostWork(trace).named.items()
        if len(ranges.start_ns)
    }

    assert found == {
        "data_loading": ([100_000], [0]),
        "allocation": ([30_000], [700_000]),
        "synchronisation": ([50_000], [500_000]),
    }
