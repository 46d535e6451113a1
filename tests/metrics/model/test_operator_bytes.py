"""Least bytes and precision of operators from the shapes and types of their inputs."""

from __future__ import annotations

from typing import Any

import pytest

from ccltui.metrics.device.product_rates import bytes_of, precision_of_inputs
from ccltui.metrics.model.flops import convolution_of, flops_of

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
