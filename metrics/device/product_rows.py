"""The JSON form of rates of operators, and the table of those with known FLOPs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.device.product_rates import NO_FLOPS

if TYPE_CHECKING:
    from ccltui.metrics.device.product_rates import Product, ProductRate
    from ccltui.metrics.model.peaks import DevicePeak

MOST_PRODUCTS: Final = 100
"""Operators in a document, those with the most time."""

RATES_BASIS: Final[Mapping[str, str]] = {
    "tflops": "FLOPs by the inputs over the whole duration of the computing kernels that the "
    "operator launched and that begin in the measured time, TFLOPS",
    "tbps": "least bytes over the same duration, TB/s: every input read once, the outputs written "
    "once",
    "roofline_share": "the longer of FLOPs over the dense peak and least bytes over the memory "
    "bandwidth of the device, over the same duration; above 1 where caches serve the bytes",
    "roofline_limit": "compute or memory: which of both is longer for most of that time",
    "roofline_reason": "why there is no roofline",
}


def rate_cells(rate: ProductRate | None) -> dict[str, Any]:
    """Return the cells of the rate of an operator; null where its FLOPs are unknown."""
    if rate is None:
        names = ("operator_calls", "tflops", "tbps", "roofline_share", "roofline_limit")
        return {**dict.fromkeys(names), "roofline_reason": NO_FLOPS}
    return {
        "operator_calls": rate.calls,
        "tflops": rate.tflops,
        "tbps": rate.tbps,
        "roofline_share": rate.roofline,
        "roofline_limit": rate.limit,
        "roofline_reason": rate.why or None,
    }


def product_table(rates: Mapping[Product, ProductRate]) -> list[dict[str, Any]]:
    """Return operators with known FLOPs by shapes, those with the most time first."""
    rows = sorted(rates.items(), key=lambda item: -item[1].device_ns)[:MOST_PRODUCTS]
    return [
        {
            "operator": key[0],
            "shapes": key[1],
            "precision": ", ".join(rate.precisions) or None,
            "device_ms": milliseconds(rate.device_ns),
            "flops": rate.flops,
            "bytes": rate.bytes,
            **rate_cells(rate),
        }
        for key, rate in rows
    ]


def roofline_of(device: DevicePeak | None) -> dict[str, Any] | None:
    """Return the peaks that rooflines are measured against, None where the device is unknown."""
    if device is None:
        return None
    return {
        "device": device.name,
        "tflops": dict(device.tflops),
        "memory_gbps": device.memory_gbps,
        "source": device.source,
        "note": device.note or None,
    }
