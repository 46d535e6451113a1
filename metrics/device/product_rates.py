"""Rates of matrix products and attention, by operator and recorded shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import unique_inverse
from ccltui.metrics.arrays.statistics import ratio
from ccltui.metrics.device.launch_origin import operator_rows
from ccltui.metrics.model.classify import COMP
from ccltui.metrics.model.flops import flops_of

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView

Product = tuple[str | None, ...]
"""Operator, and JSON text of the shapes of its inputs, as in the keys of a pivot."""


class ProductRate(Struct):
    """Calls of an operator with one set of shapes whose kernels begin in the measured time.

    ``device_ns`` is the time of these kernels to their ends.
    """

    flops: int
    calls: int = 0
    device_ns: int = 0

    @property
    def tflops(self) -> float | None:
        """FLOPs over the time of the kernels, TFLOPS; None without a time."""
        return ratio(self.flops * self.calls, self.device_ns * 1000)


def product_rates(ranks: Sequence[RankView]) -> Mapping[Product, ProductRate]:
    """Return the rates of the operators whose FLOPs follow from their shapes, over all ranks."""
    rates: dict[Product, ProductRate] = {}
    for rank in ranks:
        _add(rates, rank)
    return rates


def _add(rates: dict[Product, ProductRate], rank: RankView) -> None:
    gpu, operators = rank.trace.group("gpu"), rank.trace.group("cpu_ops")
    if not len(operators.shapes):
        return
    rows = operator_rows(rank)
    chosen = np.flatnonzero((rows >= 0) & rank.starts_inside & (rank.facts.classes == COMP))
    chosen = chosen[operators.shapes[rows[chosen]] >= 0]
    size = len(rank.trace.strings)
    code = operators.name.astype(np.int64) * size + operators.shapes
    found, place = unique_inverse(code[rows[chosen]])
    # bincount sums in float64, which is exact for whole nanoseconds up to 104 days
    time = np.bincount(place, weights=gpu.dur_ns[chosen], minlength=len(found))
    issued = code[np.flatnonzero(np.bincount(rows[chosen], minlength=1))]
    calls = np.bincount(np.searchsorted(found, issued), minlength=len(found))
    for one, number, ns in zip(found.tolist(), calls.tolist(), time.tolist(), strict=True):
        key = rank.trace.text(one // size), rank.trace.text(one % size)
        if key not in rates:
            flops = flops_of(key[0], shapes_in(key[1]))
            if flops is None:
                continue
            rates[key] = ProductRate(flops)
        rates[key].calls += number
        rates[key].device_ns += int(ns)


def shapes_in(text: str) -> list[Any]:
    """Return the shapes in the text of a trace, an empty list where it holds none."""
    try:
        shapes = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return shapes if isinstance(shapes, list) else []
