"""Table of peak rates of devices: dense matrix products by precision, memory, links, with sources.

Rates are TFLOPS without structured sparsity: data sheets that state twice as much count products
with zeros, which are not computed. Links are decimal GB/s in one direction of one device; vendors
mostly state the sum of both directions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

PRECISIONS: Final = ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")


class DevicePeak(Struct, frozen=True):
    """Peak rates of one device: ``tflops`` by precision; ``link_gbps`` None without known links."""

    name: str
    tflops: Mapping[str, float]
    source: str
    link_gbps: float | None = None
    link_source: str = ""
    note: str = ""  # assumption by which the name was assigned to the device
    memory_gbps: float | None = None  # decimal GB/s of its memory, of its fastest variant


def _half(rate: float, **others: float) -> dict[str, float]:
    return {"bf16": rate, "fp16": rate, **others}


_HOPPER = _half(989.0, tf32=494.5, fp8=1979.0, fp32=67.0)
_AMPERE = _half(312.0, tf32=156.0, fp32=19.5)

_NVLINK_5 = (900.0, "NVLink 5: 1.8 TB/s in both directions")
_NVLINK_4 = (450.0, "NVLink 4: 900 GB/s in both directions")
_NVLINK_3 = (300.0, "NVLink 3: 600 GB/s in both directions")
_NVLINK_2 = (150.0, "NVLink 2: 300 GB/s in both directions")
_BRIDGE = (300.0, "NVLink bridge: 600 GB/s in both directions")
_XGMI_4 = (537.6, "7 Infinity Fabric links of 153.6 GB/s in both directions")
_XGMI_3 = (448.0, "7 Infinity Fabric links of 128 GB/s in both directions")
_NO_LINK = (None, "")

_Row = tuple[str, str, Mapping[str, float], str, tuple[float | None, str]]
_ROWS: Final[tuple[_Row, ...]] = (
    (
        "gb300",
        "GB300",
        _half(2500.0, tf32=1250.0, fp8=5000.0, fp4=15000.0),
        "NVIDIA GB300 NVL72 specifications, a 72nd, dense (1,080 PFLOPS FP4, 720 sparse FP8), as "
        "Verda's table of one GPU has them",
        _NVLINK_5,
    ),
    (
        "b300",
        "B300",
        _half(2250.0, tf32=1125.0, fp8=4500.0, fp32=75.0),
        "NVIDIA HGX B300 specifications, an eighth, halved to dense, as FiberMall's overview of "
        "HGX B300 prints them; of dense FP4 prints differ (13.1 to 14 PFLOPS), so it has none",
        _NVLINK_5,
    ),
    (
        "gb200",
        "GB200",
        _half(2500.0, tf32=1250.0, fp32=90.0, fp8=5000.0, fp4=10000.0),
        "NVIDIA Blackwell architecture brief, dense",
        _NVLINK_5,
    ),
    (
        "b200",
        "B200",
        _half(2250.0, tf32=1100.0, fp32=80.0, fp8=4500.0, fp4=9000.0),
        "NVIDIA Blackwell architecture brief, HGX, dense",
        _NVLINK_5,
    ),
    (
        "h800",
        "H800 SXM",
        _half(989.0, tf32=494.5, fp8=1979.0),
        "the matrix units of the H100 SXM: H800 at 989 and 1979 in LLM-Prof's hardware_spec and "
        "LLMRoofline's hardware_dict; its plain FP32 is not in them",
        (200.0, "NVLink 4: 400 GB/s in both directions"),
    ),
    ("g?h200", "H200", _HOPPER, "NVIDIA H200 data sheet, halved to dense", _NVLINK_4),
    (
        "h100.*nvl",
        "H100 NVL",
        _half(835.0, tf32=417.5, fp8=1671.0, fp32=60.0),
        "NVIDIA H100 data sheet, halved to dense",
        _BRIDGE,
    ),
    (
        "h100.*pcie",
        "H100 PCIe",
        _half(756.0, tf32=378.0, fp8=1513.0, fp32=51.0),
        "NVIDIA H100 data sheet, halved to dense",
        _NO_LINK,
    ),
    ("h100", "H100 SXM", _HOPPER, "NVIDIA H100 data sheet, halved to dense", _NVLINK_4),
    ("a100.*pcie", "A100 PCIe", _AMPERE, "NVIDIA A100 data sheet, dense", _NO_LINK),
    ("a100", "A100 SXM", _AMPERE, "NVIDIA A100 data sheet, dense", _NVLINK_3),
    ("v100.*pcie", "V100 PCIe", {"fp16": 112.0, "fp32": 14.0}, "NVIDIA V100 data sheet", _NO_LINK),
    ("v100", "V100 SXM", {"fp16": 125.0, "fp32": 15.7}, "NVIDIA V100 data sheet", _NVLINK_2),
    (
        "l40s",
        "L40S",
        _half(362.0, tf32=183.0, fp8=733.0, fp32=91.6),
        "NVIDIA L40S data sheet, dense",
        _NO_LINK,
    ),
    (
        "l40",
        "L40",
        _half(181.0, tf32=90.5, fp8=362.0, fp32=90.5),
        "NVIDIA L40 data sheet, dense (181.05 | 362.1 with sparsity)",
        _NO_LINK,
    ),
    (
        "l4",
        "L4",
        _half(121.0, tf32=60.0, fp8=242.5, fp32=30.3),
        "NVIDIA L4 data sheet, halved to dense (242 FP16, 120 TF32, 485 FP8 with sparsity)",
        _NO_LINK,
    ),
    ("a10g", "A10G", _half(70.0, tf32=35.0, fp32=35.0), "NVIDIA A10G data sheet, dense", _NO_LINK),
    ("a10", "A10", _half(125.0, tf32=62.5, fp32=31.2), "NVIDIA A10 data sheet, dense", _NO_LINK),
    ("t4", "T4", {"fp16": 65.0, "fp32": 8.1}, "NVIDIA T4 data sheet", _NO_LINK),
    (
        "mi355x?",
        "MI355X",
        _half(2500.0, fp8=5000.0),
        "AMD Instinct MI355X data sheet, rounded as TorchTitan does",
        _XGMI_4,
    ),
    (
        "mi350x?",
        "MI350X",
        _half(2300.0, fp8=4600.0),
        "AMD Instinct MI350X data sheet, rounded",
        _XGMI_4,
    ),
    (
        "mi3(?:00|25)x?",
        "MI300X",
        _half(1300.0, tf32=653.7, fp32=163.4, fp8=2614.9),
        "AMD Instinct MI300X data sheet (1307.4), rounded as TorchTitan does",
        _XGMI_3,
    ),
    (
        "mi300a",
        "MI300A",
        _half(980.6, tf32=490.3, fp32=122.6, fp8=1961.2),
        "AMD Instinct MI300A data sheet (980.6 FP16 and bfloat16, 122.6 FP32); TF32 and FP8 by "
        "its 228 of the 304 compute units of an MI300X at the same 2,100 MHz",
        _NO_LINK,
    ),
    (
        "mi250x?",
        "MI250X die",
        _half(191.5, fp32=47.9),
        "AMD Instinct MI250X data sheet, one of its two dies",
        _NO_LINK,
    ),
    ("v6e|trillium", "TPU v6e", {"bf16": 918.0}, "Google Cloud, TPU v6e", _NO_LINK),
    ("v5p", "TPU v5p", {"bf16": 459.0}, "Google Cloud, TPU v5p", _NO_LINK),
    ("v5e|v5litepod", "TPU v5e", {"bf16": 197.0}, "Google Cloud, TPU v5e", _NO_LINK),
    ("tpu.*v4", "TPU v4", {"bf16": 275.0}, "Google Cloud, TPU v4", _NO_LINK),
)
_MEMORY_GBPS: Final = {
    "GB300": 8000.0,
    "B300": 8000.0,
    "GB200": 8000.0,
    "B200": 8000.0,
    "H800 SXM": 3350.0,
    "H200": 4800.0,
    "H100 NVL": 3938.0,
    "H100 PCIe": 2039.0,
    "H100 SXM": 3350.0,
    "A100 PCIe": 1935.0,
    "A100 SXM": 2039.0,
    "V100 PCIe": 900.0,
    "V100 SXM": 900.0,
    "L40S": 864.0,
    "L40": 864.0,
    "L4": 300.0,
    "A10": 600.0,
    "T4": 320.0,
    "MI355X": 8000.0,
    "MI350X": 8000.0,
    "MI300X": 6000.0,  # MI325X; the MI300X has 5300
    "MI300A": 5300.0,
    "MI250X die": 1638.0,
    "TPU v6e": 1640.0,
    "TPU v5p": 2765.0,
    "TPU v5e": 819.0,
    "TPU v4": 1228.0,
}
"""Memory bandwidth of the same data sheets; where variants differ, of the fastest."""

DEVICES: Final = tuple(
    (pattern, DevicePeak(name, rates, source, *link, memory_gbps=_MEMORY_GBPS.get(name)))
    for pattern, name, rates, source, link in _ROWS
)
"""Pattern of the normalised name, and the device; the first pattern that matches applies."""

_AMBIGUOUS: Final = {
    "h100": re.compile("sxm|hbm3|hgx|dgx|pcie|nvl"),
    "a100": re.compile("sxm|hgx|dgx|pcie|pg509"),
    "v100": re.compile("sxm|dgx|pcie"),
}
_COMPILED: Final = tuple(
    (re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])"), peak) for pattern, peak in DEVICES
)
_PRECISION_WORDS: Final = (
    ("fp4", re.compile(r"fp4|nvfp4|mxfp4|int4|w4a4")),
    ("fp8", re.compile(r"fp8|float8|e4m3|e5m2|mxfp8")),
    ("bf16", re.compile(r"bf16|bfloat16|brain")),
    ("fp16", re.compile(r"fp16|float16|half|\bf16")),
    ("tf32", re.compile(r"tf32|tensorfloat")),
    ("fp32", re.compile(r"fp32|float32|single|\bf32|\bfloat\b|\bfull\b")),
)


def find_device(name: str) -> DevicePeak | None:
    """Return the device for a name of a card or a driver (nvidia_a100_40gb is an A100), or None.

    Where the name does not contain the form factor, that of servers (SXM) is assumed; ``note``
    states the assumption.
    """
    text = re.sub(r"[\W_]+", " ", name.lower()).strip()
    for pattern, peak in _COMPILED:
        if pattern.search(text):
            return _noted(text, peak)
    return None


def _noted(text: str, peak: DevicePeak) -> DevicePeak:
    for word, form in _AMBIGUOUS.items():
        if word in text and not form.search(text):
            return replace(peak, note=f"{text} does not state its form: taken for {peak.name}")
    return peak


def precision_of(text: str) -> str | None:
    """Return the precision of matrix products that a card's text names, or None."""
    lowered = text.lower()
    return next((name for name, words in _PRECISION_WORDS if words.search(lowered)), None)
