"""Rates of matrix products, attention and convolutions, by operator and recorded shapes.

achieved     = FLOPs, or least bytes, over the time of the kernels
attainable   = the longer of FLOPs / peak and bytes / memory bandwidth, as a time
roofline     = attainable time / time of the kernels

Count the bytes that an operator must move at least: every input read once, outputs written once.

Caches, padding and the logarithms that attention saves for its backward pass are not counted, so
that a kernel moves at least this much unless its inputs stay in a cache.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, unique_inverse
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.launch_origin import operator_rows
from ccltui.metrics.model.classify import COMP
from ccltui.metrics.model.flops import convolution_of, flops_of, is_product

if TYPE_CHECKING:
    from ccltui.metrics.model.peaks import DevicePeak
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I32, I64

Product = tuple[str | None, ...]
"""Operator, and JSON text of the shapes of its inputs, as in the keys of a pivot."""

_MOST_FLOPS: Final = 10**24  # a device takes weeks for them: the shapes are damaged
NO_FLOPS: Final = "its FLOPs do not follow from what is recorded"
NO_DEVICE: Final = "the device, or its peaks, are not known"
NO_TYPES: Final = "the types of the inputs, or of the output, are not recorded"
NO_PRECISION: Final = (
    "the precision is not known: the types are not recorded, or kernels of float32 inputs do not "
    "tell TF32 from FP32"
)


class ProductRate(Struct):
    """Calls of an operator with one set of shapes whose kernels begin in the measured time.

    Attributes:
        flops: of all calls.
        calls: their number.
        device_ns: time of their kernels to their ends.
        bytes: least bytes that all calls move, None where unknown.
        attainable_ns: least time of all calls on this device, None where unknown.
        compute_ns: its part by FLOPs alone.
        precisions: precisions of the calls.
        why: reason why there is no roofline, "" where there is one.
    """

    flops: int = 0
    calls: int = 0
    device_ns: int = 0
    bytes: int | None = 0
    attainable_ns: float | None = 0.0
    compute_ns: float = 0.0
    precisions: tuple[str, ...] = ()
    why: str = ""

    @property
    def tflops(self) -> float | None:
        """FLOPs over the time of the kernels, TFLOPS; None without a time."""
        return ratio(self.flops, self.device_ns * 1000)

    @property
    def tbps(self) -> float | None:
        """Least bytes over the time of the kernels, TB/s; None where unknown."""
        return None if self.bytes is None else ratio(self.bytes, self.device_ns * 1000)

    @property
    def roofline(self) -> float | None:
        """Attainable time over the time of the kernels; None where unknown."""
        return None if self.attainable_ns is None else ratio(self.attainable_ns, self.device_ns)

    @property
    def limit(self) -> str | None:
        """What limits the attainable time: "compute" or "memory"; None where unknown."""
        if self.attainable_ns is None or not self.attainable_ns:
            return None
        return "compute" if 2 * self.compute_ns >= self.attainable_ns else "memory"

    def add(self, inputs: Inputs, device: DevicePeak | None, calls: int, device_ns: int) -> None:
        """Add calls with the same inputs."""
        self.flops += inputs.flops * calls
        self.calls += calls
        self.device_ns += device_ns
        if inputs.precision is not None and inputs.precision not in self.precisions:
            self.precisions = (*self.precisions, inputs.precision)
        if inputs.bytes is None or self.bytes is None:
            self.bytes = None
        else:
            self.bytes += inputs.bytes * calls
        found = inputs.attainable(device)
        if isinstance(found, str):
            self.attainable_ns, self.why = None, found
        elif self.attainable_ns is not None:
            self.attainable_ns += max(found) * calls
            self.compute_ns += found[0] * calls if found[0] >= found[1] else 0.0


class Inputs(Struct, frozen=True):
    """FLOPs, bytes and precision of one call of an operator; None where unknown."""

    flops: int
    bytes: int | None
    precision: str | None

    def attainable(self, device: DevicePeak | None) -> tuple[float, float] | str:
        """Return the least time in ns by FLOPs and by bytes, or the reason why it is unknown."""
        if device is None or device.memory_gbps is None:
            return NO_DEVICE
        if self.bytes is None:
            return NO_TYPES
        if self.precision is None:
            return NO_PRECISION
        peak = device.tflops.get(self.precision)
        if peak is None:
            return f"no known peak of {device.name} in {self.precision}"
        return self.flops / (peak * 1000), self.bytes / device.memory_gbps


def product_rates(
    ranks: Sequence[RankView], device: DevicePeak | None = None
) -> Mapping[Product, ProductRate]:
    """Return the rates of the operators whose FLOPs follow from their inputs, over all ranks.

    Args:
        ranks: the ranks that are measured.
        device: peaks of their devices; without them there is no roofline.
    """
    rates: dict[Product, ProductRate] = {}
    for rank in ranks:
        _add(rates, rank, device)
    return rates


def _add(rates: dict[Product, ProductRate], rank: RankView, device: DevicePeak | None) -> None:
    gpu, operators = rank.trace.group("gpu"), rank.trace.group("cpu_ops")
    if not len(operators.shapes):
        return
    rows = operator_rows(rank)
    chosen = np.flatnonzero((rows >= 0) & rank.starts_inside & (rank.facts.classes == COMP))
    chosen = chosen[operators.shapes[rows[chosen]] >= 0]
    issued, place = unique_inverse(rows[chosen])
    keys = (operators.name, operators.shapes, operators.sparse("input_types"))
    code = _codes((*keys, operators.sparse("input_values")), issued)
    found, of_call = unique_inverse(code)
    # bincount sums in float64, which is exact for whole nanoseconds up to 104 days
    time = np.bincount(of_call[place], weights=gpu.dur_ns[chosen], minlength=len(found))
    calls = np.bincount(of_call, minlength=len(found))
    first = np.full(len(found), -1, np.int64)
    first[of_call[::-1]] = issued[::-1]
    text = rank.trace.text
    for index, row in enumerate(first.tolist()):
        name, shapes = text(operators.name[row]), text(operators.shapes[row])
        mine = gpu.name[chosen[of_call[place] == index]]
        inputs = _inputs(rank, row, [text(one) for one in distinct_values(mine).tolist()])
        if inputs is not None:
            rate = rates.setdefault((name, shapes), ProductRate())
            rate.add(inputs, device, int(calls[index]), int(time[index]))


def _codes(columns: Sequence[I32], rows: I64) -> I64:
    """Return a number for each row that is the same where all columns are."""
    code = np.zeros(len(rows), np.int64)
    for column in columns:
        values, place = unique_inverse(np.asarray(column[rows], np.int64))
        _, code = unique_inverse(code * max(len(values), 1) + place)
    return code


def _inputs(rank: RankView, row: int, kernels: Sequence[str]) -> Inputs | None:
    """Return what one operator computes and moves, None where its FLOPs are unknown."""
    operators, text = rank.trace.group("cpu_ops"), rank.trace.text
    name, shapes = text(operators.name[row]), shapes_in(text(operators.shapes[row]))
    types = shapes_in(text(int(operators.sparse("input_types")[row])))
    values = shapes_in(text(int(operators.sparse("input_values")[row])))
    flops = flops_of(name, shapes, values)
    if flops is None or flops > _MOST_FLOPS:
        return None
    moved = bytes_of(name, shapes, types, values)
    return Inputs(flops, moved, precision_of_inputs(types, kernels))


def shapes_in(text: str) -> list[Any]:
    """Return the list in the text of a trace, an empty one where it holds none."""
    try:
        shapes = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return shapes if isinstance(shapes, list) else []


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


_BYTES: Final = {
    "float": 4,
    "double": 8,
    "c10::half": 2,
    "c10::bfloat16": 2,
    "c10::float8_e4m3fn": 1,
    "c10::float8_e5m2": 1,
    "c10::float8_e4m3fnuz": 1,
    "c10::float8_e5m2fnuz": 1,
    "signed char": 1,
    "unsigned char": 1,
}
"""Bytes of an element by the type as PyTorch writes it, in lower case."""
_PRECISIONS: Final = {
    "c10::half": "fp16",
    "c10::bfloat16": "bf16",
    "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8",
    "c10::float8_e4m3fnuz": "fp8",
    "c10::float8_e5m2fnuz": "fp8",
}
_TF32_KERNEL: Final = re.compile(r"tf32|s1688gemm|s16816tf32", re.IGNORECASE)
_FP32_KERNEL: Final = re.compile(
    r"simt|(?<![a-z0-9])(?:ampere|volta|maxwell|turing)_sgemm|f32f32_f32f32|ffma", re.IGNORECASE
)
_FACTOR_AT: Final = 3
"""Place of the factor of what is added among the inputs of such a product."""
_ADDED: Final = ("aten::addmm", "aten::_addmm_activation", "aten::baddbmm")


def bytes_of(
    name: str, shapes: Sequence[Any], types: Sequence[Any], values: Sequence[Any] = ()
) -> int | None:
    """Return the bytes of one call, None where a shape or a type is unknown.

    Args:
        name: the operator, one whose FLOPs are counted.
        shapes: shapes of its inputs.
        types: their data types as PyTorch writes them.
        values: its inputs that are no tensors, as text.
    """
    if "convolution" in name:
        return _convolution(name, shapes, types, values)
    tensors = _tensors(shapes, types)
    if tensors is None or name == "aten::_scaled_mm" or not is_product(name):
        return None  # the type of the output of a scaled product is no recorded input
    if "attention" in name:
        return _attention(tensors, backward="backward" in name)
    first = 1 if name in _ADDED else 0
    try:
        (a, size), (b, _) = tensors[first : first + 2]
    except ValueError:
        return None
    # Unless its factor is known not to be 0, what is added need not be read.
    skipped = first if first and not _is_added(values) else 0
    read = sum(math.prod(shape) * width for shape, width in tensors[skipped : first + 2])
    return read + math.prod(a[:-1]) * b[-1] * size


def _is_added(values: Sequence[Any]) -> bool:
    """Return whether the factor of the added input is recorded and not 0."""
    try:
        return float(values[_FACTOR_AT]) != 0
    except (IndexError, TypeError, ValueError):
        return False


def precision_of_inputs(types: Sequence[Any], kernels: Sequence[str]) -> str | None:
    """Return the precision of the products of an operator, None where it is unknown.

    Args:
        types: data types of its inputs.
        kernels: names of its kernels: they tell whether float32 inputs are computed as TF32.
    """
    named = [str(one).lower() for one in types if str(one).lower() in _BYTES]
    if not named:
        return None
    if named[0] != "float":
        return _PRECISIONS.get(named[0])
    text = " ".join(kernels)
    tf32, fp32 = _TF32_KERNEL.search(text), _FP32_KERNEL.search(text)
    if bool(tf32) == bool(fp32):
        return None
    return "tf32" if tf32 else "fp32"


def _tensors(
    shapes: Sequence[Any], types: Sequence[Any]
) -> list[tuple[tuple[int, ...], int]] | None:
    """Return shape and bytes of an element of each tensor input, None if one type is unknown."""
    found = []
    for shape, kind in zip(shapes, types, strict=False):
        if not isinstance(shape, list) or not shape or not all(type(n) is int for n in shape):
            continue
        width = _BYTES.get(str(kind).lower())
        if width is None:
            return None
        found.append((tuple(shape), width))
    return found


def _attention(tensors: list[tuple[tuple[int, ...], int]], *, backward: bool) -> int | None:
    """Queries, keys, values and the output; backward their gradients too."""
    at = 1 if backward else 0
    if len(tensors) < at + 3:
        return None
    (query, width), (key, _), (value, _) = tensors[at : at + 3]
    if not len(query) == len(key) == len(value) == 4:
        return None
    inputs = sum(map(math.prod, (query, key, value))) * width
    output = math.prod(query[:3]) * value[3] * width
    return 2 * inputs + 2 * output if backward else inputs + output


def _convolution(
    name: str, shapes: Sequence[Any], types: Sequence[Any], values: Sequence[Any]
) -> int | None:
    found = convolution_of(name, shapes, values)
    tensors = _tensors(shapes, types)
    if found is None or not tensors:
        return None
    width = tensors[0][1]
    image, weight, output = map(math.prod, (found.image, found.weight, found.output))
    if found.gradients is None:
        return sum(math.prod(shape) * size for shape, size in tensors) + output * width
    of_image, of_weight = found.gradients
    # The gradient of the input needs the weight, that of the weight needs the input.
    moved = output + of_image * (weight + image) + of_weight * (image + weight)
    return moved * width
