"""FLOPs of matrix products from the shapes of their inputs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.model.flops import flops_of, is_product
from ccltui.parsers.kineto.collective_rows import is_product as is_kept


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
