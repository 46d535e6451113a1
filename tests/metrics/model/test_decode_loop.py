"""Passes of a server that marks none: when their period shows, and when it does not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from factories import Event, kernel, launch, rank_trace
from msgspec.structs import replace

from ccltui.metrics.model.rank_steps import DECODE_LOOP, is_server, steps_of
from ccltui.parsers.columns import RankTrace, Strings

PERIOD_US = 1000.0
SERVER = "void vllm::rms_norm_kernel"
TO_HOST = "Memcpy DtoH (Device -> Pinned)"


def looped(
    passes: int,
    *,
    kernels: int = 40,
    copies: Sequence[float] = (900.0,),
    name: str = SERVER,
    replays: bool = False,
    launches: bool = True,
) -> RankTrace:
    """Passes of some kernels, 10 us apart, and copies to the host at these times of each."""
    gpu: list[Event] = []
    runtime: list[Event] = []
    for number in range(passes):
        at = PERIOD_US * number
        rows = [(name, at + 10 * k) for k in range(kernels)]
        rows += [(TO_HOST, at + offset) for offset in copies]
        for name_of, start in rows:
            correlation = len(gpu) + 1
            replayed = replays and name_of == name
            shown = 10_000 + number if replayed else correlation
            gpu.append(kernel(name_of, start + 5, 4, correlation=shown if launches else -1))
            if not replayed:
                runtime.append(launch(correlation, start))
        if replays:
            runtime.append(Event("cudaGraphLaunch", at, 5, 1, correlation=10_000 + number))
    return rank_trace(0, gpu=gpu, runtime=runtime)


def periods(trace: RankTrace) -> list[float]:
    steps, _ = steps_of(trace)
    return [(b.start_ns - a.start_ns) / 1000 for a, b in pairwise(steps[1:])]


@pytest.mark.parametrize("copies", [
    [900.0],
    [900.0, 905.0, 910.0],  # tokens, their probabilities, and a flag
    [900.0, 25.0],  # of the next pass, before its third kernel
    [0.5, 850.0, 990.0],
])  # fmt: skip
def test_copies_between_two_passes_end_one_of_them(copies: Sequence[float]) -> None:
    steps, marker = steps_of(looped(8, copies=copies))

    assert marker == DECODE_LOOP
    assert 7 <= len(steps) <= 8
    assert periods(looped(8, copies=copies)) == [PERIOD_US] * (len(steps) - 2)


def test_replays_of_whole_models_serve_without_copies() -> None:
    steps, marker = steps_of(looped(6, kernels=80, copies=(), replays=True))

    assert (marker, len(steps)) == (DECODE_LOOP, 5)  # the last has no end
    assert periods(looped(6, kernels=80, copies=(), replays=True)) == [PERIOD_US] * 3


@pytest.mark.parametrize(
    "trace",
    [
        looped(8, name="ampere_sgemm"),  # training copies losses to the host
        looped(2),
        looped(8, copies=()),
        looped(8, kernels=20, copies=(), replays=True),  # graphs of layers, not of the model
        looped(8, launches=False),
        rank_trace(0),
    ],
    ids=["no server", "two passes", "no copies", "small graphs", "no launches", "nothing"],
)
def test_without_a_period_no_step_is_made_up(trace: RankTrace) -> None:
    assert steps_of(trace) == ((), None)


@pytest.mark.parametrize(
    "to_host", ["CopyDeviceToHost", "[CUDA memcpy Device-to-Host]", "CUDA memcpy DtoH", TO_HOST]
)
def test_copies_have_the_names_of_their_profiler(to_host: str) -> None:
    trace = looped(6)
    texts = [to_host if text == TO_HOST else text for text in trace.strings]

    assert len(steps_of(replace(trace, strings=Strings.of(texts)))[0]) == 6


@pytest.mark.parametrize(
    "name",
    [
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel",
        "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>",
        "_fwd_grouped_kernel_stage1_sglang",
        "paged_attention_ll4mi_QKV_mfma16_kernel",
    ],
)
def test_kernels_of_servers_are_known(name: str) -> None:
    assert is_server(rank_trace(0, gpu=[kernel(name, 0, 1)]))


def test_kernels_of_training_are_not() -> None:
    names = ["ampere_sgemm", "flash_fwd_kernel", "flash_bwd_dq_dk_dv", "void multi_tensor_apply"]

    assert not is_server(
        rank_trace(0, gpu=[kernel(name, 9 * i, 1) for i, name in enumerate(names)])
    )
