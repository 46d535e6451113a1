"""Work of operators: floating-point operations, bytes, peaks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.device.product_rates import bytes_of, precision_of_inputs
from ccltui.metrics.model.flops import convolution_of, flops_of, is_product
from ccltui.metrics.model.peaks import DEVICES, PRECISIONS, find_device, precision_of
from ccltui.parsers.kineto.collective_rows import is_product as is_kept

BF16, FP32 = "c10::BFloat16", "float"
CONV = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
BACKWARD = ["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]


@pytest.mark.parametrize(
    ("name", "shapes", "types", "values", "elements"),
    [
        ("aten::mm", [[4, 8], [8, 16]], [BF16, BF16], [], 32 + 128 + 64),
        ("aten::bmm", [[3, 4, 8], [3, 8, 16]], [BF16, BF16], [], 3 * (32 + 128 + 64)),
        (
            "aten::addmm",
            [[16], [4, 8], [8, 16], [], []],
            [BF16, BF16, BF16, "Scalar", "Scalar"],
            ["", "", "", "1", "1"],
            16 + 32 + 128 + 64,
        ),
        (
            "aten::baddbmm",
            [[3, 4, 16], [3, 4, 8], [3, 8, 16], [], []],
            [BF16, BF16, BF16, "Scalar", "Scalar"],
            ["", "", "", "0.", "0.125"],
            3 * (32 + 128 + 64),  # what is added is multiplied by 0
        ),
        ("aten::addmm", [[16], [4, 8], [8, 16]], [BF16] * 3, [], 32 + 128 + 64),
        (
            "aten::_scaled_dot_product_flash_attention",
            [[2, 4, 10, 8], [2, 4, 20, 8], [2, 4, 20, 6], [], []],
            [BF16, BF16, BF16, "Scalar", "Scalar"],
            [],
            8 * (10 * 8 + 20 * 8 + 20 * 6 + 10 * 6),
        ),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            [[2, 4, 10, 6], [2, 4, 10, 8], [2, 4, 20, 8], [2, 4, 20, 6], [2, 4, 10, 6]],
            [BF16] * 5,
            [],
            2 * 8 * (10 * 8 + 20 * 8 + 20 * 6 + 10 * 6),
        ),
        (
            "aten::convolution",
            [[2, 3, 9, 9], [5, 3, 3, 3], [5]],
            [BF16] * 3,
            CONV,
            2 * 3 * 81 + 5 * 27 + 5 + 2 * 5 * 25,
        ),
    ],
)
def test_every_input_is_read_and_the_output_written_once(
    name: str, shapes: list[Any], types: list[str], values: list[str], elements: int
) -> None:
    assert bytes_of(name, shapes, types, values) == 2 * elements
    assert bytes_of(name, shapes, [one.replace(BF16, FP32) for one in types], values) == (
        4 * elements
    )


@pytest.mark.parametrize(
    ("name", "shapes", "types"),
    [
        ("aten::mm", [[4, 8], [8, 16]], []),
        ("aten::mm", [[4, 8], [8, 16]], [BF16, "unheard of"]),
        ("aten::mm", [[4, 8]], [BF16]),
        ("aten::_scaled_mm", [[4, 8], [8, 16]], ["c10::Float8_e4m3fn"] * 2),
        ("aten::convolution", [[2, 3, 9, 9], [5, 3, 3, 3]], [BF16, BF16]),
        ("aten::add", [[4, 8], [4, 8]], [BF16, BF16]),
    ],
)
def test_unknown_bytes_are_none(name: str, shapes: list[Any], types: list[str]) -> None:
    assert bytes_of(name, shapes, types) is None


def test_a_convolution_is_a_product_for_each_place_of_its_output() -> None:
    shapes = [[2, 3, 9, 9], [5, 3, 3, 3], [5]]
    found = convolution_of("aten::convolution", shapes, CONV)

    assert found is not None
    assert found.output == (2, 5, 5, 5)
    assert flops_of("aten::convolution", shapes, CONV) == 2 * (2 * 5 * 25) * 27
    grouped = [[2, 4, 9, 9], [8, 2, 3, 3], []]
    assert flops_of("aten::convolution", grouped, CONV) == 2 * (2 * 8 * 25) * 18


@pytest.mark.parametrize(
    ("mask", "products"), [("[True, True, False]", 2), ("[False, True, True]", 1)]
)
def test_a_convolution_backward_has_a_product_for_each_gradient(mask: str, products: int) -> None:
    shapes = [[2, 5, 5, 5], [2, 3, 9, 9], [5, 3, 3, 3]]
    one = 2 * (2 * 5 * 25) * 27

    assert flops_of("aten::convolution_backward", shapes, [*BACKWARD, mask]) == products * one


@pytest.mark.parametrize(
    "values",
    [
        [],
        CONV[:5],
        [*CONV[:6], "True", *CONV[7:]],
        [*CONV[:3], "x", *CONV[4:]],
        [*CONV[:3], "[0, 0]", *CONV[4:]],
    ],
)
def test_convolutions_without_known_output_are_unknown(values: list[str]) -> None:
    assert flops_of("aten::convolution", [[2, 3, 9, 9], [5, 3, 3, 3], []], values) is None


@pytest.mark.parametrize(
    ("types", "kernel", "precision"),
    [
        ([BF16, BF16], "anything", "bf16"),
        (["", "c10::Half"], "anything", "fp16"),
        (["c10::Float8_e4m3fn"] * 2, "anything", "fp8"),
        ([FP32, FP32], "ampere_sgemm_128x64_nn", "fp32"),
        ([FP32, FP32], "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16", "tf32"),
        ([FP32, FP32], "cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4", "tf32"),
        ([FP32, FP32], "some_gemm", None),
        (["double", "double"], "anything", None),
        ([], "ampere_sgemm_128x64_nn", None),
    ],
)
def test_precision_follows_from_types_and_of_float32_from_the_kernel(
    types: list[str], kernel: str, precision: str | None
) -> None:
    assert precision_of_inputs(types, [kernel]) == precision


@pytest.mark.parametrize(
    ("name", "shapes", "flops"),
    [
        ("aten::mm", [[8, 4], [4, 2]], 2 * 8 * 4 * 2),
        ("aten::_scaled_mm", [[8, 4], [4, 2], [], []], 128),
        ("aten::addmm", [[2], [8, 4], [4, 2], [], []], 128),
        ("aten::bmm", [[3, 8, 4], [3, 4, 2]], 384),
        ("aten::baddbmm", [[3, 8, 2], [3, 8, 4], [3, 4, 2], [], []], 384),
        ("aten::mm", [[0, 4], [4, 2]], 0),
        # batch 1, 2 heads, 3 positions, width 4: two products of 2 * 2 * 3 * 3 * 4
        ("aten::_scaled_dot_product_flash_attention", [[1, 2, 3, 4]] * 3 + [[], []], 288),
        ("aten::_scaled_dot_product_efficient_attention", [[1, 2, 3, 4]] * 3, 288),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", [[1, 2, 3, 4]] * 3, 288),
        # five products backward; the gradient of the output is the first input
        ("aten::_scaled_dot_product_flash_attention_backward", [[1, 2, 3, 4]] * 6, 720),
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", [[1, 2, 3, 4]] * 6, 720),
        # 5 queries on 7 keys (with a cache), values of another width
        (
            "aten::_scaled_dot_product_cudnn_attention",
            [[1, 1, 5, 4], [1, 1, 7, 4], [1, 1, 7, 6]],
            2 * 5 * 7 * 4 + 2 * 5 * 7 * 6,
        ),
    ],
)
def test_by_hand(name: str, shapes: list[list[int]], flops: int) -> None:
    assert is_product(name)
    assert is_kept(name)
    assert flops_of(name, shapes) == flops


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mm", [[8, 4], [5, 2]]),  # does not fit
        ("aten::mm", [[8, 4]]),
        ("aten::mm", [8, [4]]),
        ("aten::mm", [[8, "4"], [4, 2]]),
        ("aten::bmm", [[3, 8, 4], [2, 4, 2]]),
        ("aten::addmm", [[8, 4], [4, 2]]),
        ("aten::_scaled_dot_product_flash_attention", [[3, 4], [3, 4], [3, 4]]),
        ("aten::relu", [[8, 4]]),
    ],
)
def test_shapes_that_do_not_suffice(name: str, shapes: list[object]) -> None:
    assert flops_of(name, shapes) is None


@pytest.mark.parametrize(
    "name", ["aten::linear", "aten::matmul", "aten::scaled_dot_product_attention", "my::mm", "mm"]
)
def test_operators_around_a_product_are_not_counted_twice(name: str) -> None:
    assert not is_product(name)
    assert not is_kept(name)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_flops_of_a_batch_of_products(b: int, m: int, k: int, n: int) -> None:
    one = flops_of("aten::mm", [[m, k], [k, n]])

    assert one is not None
    assert flops_of("aten::bmm", [[b, m, k], [b, k, n]]) == b * one
    assert flops_of("aten::mm", [[n, k], [k, m]]) == one


@pytest.mark.parametrize(
    ("name", "found", "bf16"),
    [
        ("nvidia_a100", "A100 SXM", 312.0),
        ("nvidia_a100_40gb", "A100 SXM", 312.0),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM", 312.0),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe", 312.0),
        ("NVIDIA H100 80GB HBM3", "H100 SXM", 989.0),
        ("NVIDIA H100 PCIe", "H100 PCIe", 756.0),
        ("NVIDIA H100 NVL", "H100 NVL", 835.0),
        ("NVIDIA H200", "H200", 989.0),
        ("NVIDIA GH200 480GB", "H200", 989.0),
        ("NVIDIA B200", "B200", 2250.0),
        ("NVIDIA GB200", "GB200", 2500.0),
        ("AMD Instinct MI300X VF", "MI300X", 1300.0),
        ("AMD Instinct MI250X", "MI250X die", 191.5),
        ("AMD Instinct MI355X", "MI355X", 2500.0),
        ("tpu_v6e", "TPU v6e", 918.0),
        ("NVIDIA A10G", "A10G", 70.0),
        ("NVIDIA A10", "A10", 125.0),
        ("NVIDIA L4", "L4", 121.0),
        ("NVIDIA L40", "L40", 181.0),
        ("NVIDIA L40S", "L40S", 362.0),
        ("NVIDIA H800", "H800 SXM", 989.0),
        ("NVIDIA B300", "B300", 2250.0),
        ("AMD Instinct MI300A", "MI300A", 980.6),
        ("AMD Instinct MI325X", "MI300X", 1300.0),
    ],
)
def test_devices(name: str, found: str, bf16: float) -> None:
    peak = find_device(name)

    assert peak is not None
    assert (peak.name, peak.tflops["bf16"]) == (found, bf16)


def test_old_devices_have_no_bf16() -> None:
    peak = find_device("Tesla V100-SXM2-16GB")

    assert peak is not None
    assert peak.tflops == {"fp16": 125.0, "fp32": 15.7}


@pytest.mark.parametrize("name", ["nvidia_dgx_spark", "gpu", "", "NVIDIA H20", "MI30", "xa100"])
def test_unknown_devices_have_no_peak(name: str) -> None:
    assert find_device(name) is None


def test_a_name_without_form_factor_gets_a_note() -> None:
    for name, note in (("nvidia_h100", True), ("NVIDIA H100 80GB HBM3", False), ("t4", False)):
        peak = find_device(name)
        assert peak is not None
        assert bool(peak.note) is note


def test_the_apu_is_three_quarters_of_the_accelerator() -> None:
    """228 of 304 compute units at one clock: the data sheets print MI300X as 1307.4 and 2614.9."""
    apu = find_device("AMD Instinct MI300A")

    assert apu is not None
    share = 228 / 304
    for precision, rate in (("bf16", 1307.4), ("tf32", 653.7), ("fp8", 2614.9), ("fp32", 163.4)):
        assert apu.tflops[precision] == pytest.approx(share * rate, rel=1e-3)


def test_rates_with_contradictory_sources_are_omitted() -> None:
    b300, h800 = find_device("NVIDIA B300"), find_device("NVIDIA H800")

    assert b300 is not None
    assert h800 is not None
    assert "fp4" not in b300.tflops
    assert "prints differ" in b300.source
    assert "fp32" not in h800.tflops


def test_halving_the_width_doubles_the_rate() -> None:
    """Of matrix units: tf32, bf16, fp8; where a device has them, within the rounding of prints."""
    for _, peak in DEVICES:
        rates = [peak.tflops.get(name) for name in ("tf32", "bf16", "fp8")]
        for wide, narrow in itertools.pairwise(rates):
            if wide is not None and narrow is not None:
                assert narrow == pytest.approx(2 * wide, rel=0.03), peak.name


def test_every_device_has_a_source_and_known_precisions() -> None:
    for _, peak in DEVICES:
        assert peak.source
        assert set(peak.tflops) <= set(PRECISIONS)
        assert all(rate > 0 for rate in peak.tflops.values())
        assert (peak.link_gbps is None) == (not peak.link_source)
        bf16, fp32 = peak.tflops.get("bf16"), peak.tflops.get("fp32")
        assert bf16 is None or fp32 is None or fp32 < bf16


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
        ("mixed (bf16 params, fp32 reduce)", "bf16"),
        ("fp16_deepspeed", "fp16"),
        ("float32", "fp32"),
        ("FP8", "fp8"),
        ("nvfp4", "fp4"),
        ("tf32", "tf32"),
        ("int8", None),
        ("", None),
    ],
)
def test_precisions(text: str, precision: str | None) -> None:
    assert precision_of(text) == precision
