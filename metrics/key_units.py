"""Units by the names of keys: ``wait_us`` is in microseconds."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = tuple(
    (re.compile(rf"(?:.*_)?{pattern}"), unit)
    for pattern, unit in (
        ("tokens_per_s(?:_per_.*)?|throughput_total", "tokens/s"),
        ("per_s", "1/s"),
        ("ns", "ns"),
        ("us", "us"),
        ("ms", "ms"),
        ("s", "s"),
        ("bytes", "bytes"),
        ("GBps(?:_.*)?", "GB/s"),
        ("us_per_MB", "us/MB"),
        ("tflops(?:_.*)?", "TFLOPS"),
        ("ppb", "ppb"),
        ("pct(?:_of_.*)?", "%"),
        ("(?:ratio|fraction)(?:_of_.*)?", "ratio"),
    )
)


def unit_of(key: str) -> str:
    """Unit by the suffix of a part of ``key``, the last part first; "" for none."""
    for part in reversed(key.split(".")):
        for pattern, unit in _UNITS:
            if pattern.fullmatch(part):
                return unit
    return ""
