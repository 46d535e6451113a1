"""Time of one rank by kinds of device work, against plain integer arithmetic on the file's text."""

from __future__ import annotations

import gzip
import json
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from golden_rows import rank_of

from ccltui.metrics.catalog.communication.comm_comp_overlap import measure

pytestmark = pytest.mark.shared


def exact_union_ns(events: list[dict[str, Any]]) -> int:
    """Measure of a union from the decimals of the file, in plain integers."""
    spans = sorted((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in events)
    total, reach = 0, spans[0][0] if spans else 0
    for start, end in spans:
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def ns(microseconds: Decimal) -> int:
    return int((microseconds * 1000).to_integral_value(ROUND_HALF_UP))


@pytest.mark.parametrize(
    "file",
    [
        "hta/nccl_parser_config/nccl_data.json.gz",
        "tracelens/traces/mi300/resnet_act_checkpoint.json.gz",
        "tracelens/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "tracelens/traces/b200/eager_trace.json.gz",
    ],
)
def test_exact_decimals(shared: Path, file: str) -> None:
    path = shared / "traces" / file
    text = gzip.decompress(path.read_bytes())
    rows = json.loads(text, parse_float=Decimal, parse_int=Decimal)["traceEvents"]
    device = [row for row in rows if row.get("ph") == "X" and "cat" in row]
    kernels = [row for row in device if row["cat"] == "kernel"]
    talks = [row for row in kernels if re.search("nccl|multimem", row["name"])]
    computes = [row for row in kernels if row not in talks]
    copies = [row for row in device if row["cat"] in ("gpu_memcpy", "gpu_memset")]

    ours = measure(rank_of(path))

    assert ours.comm == exact_union_ns(talks)
    assert ours.comp == exact_union_ns(computes)
    assert ours.mem == exact_union_ns(copies)
    assert ours.span - ours.idle == exact_union_ns([*kernels, *copies])
    assert ours.overlap == ours.comm + ours.comp - exact_union_ns(kernels)
