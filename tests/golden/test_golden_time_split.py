"""Exclusive kinds of device work, busy and idle time, against HTA and the reference.

HTA rounds to whole µs and keeps launched work only, so the traces of whole µs are compared, and
there it must agree to the last digit.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_rows import rank_of

from ccltui.metrics.catalog.time.temporal_breakdown import exclusive_ns
from ccltui.metrics.findings.rank_time.partition import split_time

pytestmark = pytest.mark.shared

HTA_KINDS = {
    "COMPUTATION": "comp",
    "COMMUNICATION": "comm",
    "MEMORY": "mem",
    "COMPUTATION overlapping COMMUNICATION": "comp_comm",
    "COMPUTATION overlapping MEMORY": "comp_mem",
    "COMMUNICATION overlapping MEMORY": "comm_mem",
    "COMPUTATION overlapping COMMUNICATION overlapping MEMORY": "comp_comm_mem",
}
WHOLE_MICROSECONDS = ("trace_filter", "trace_diff_control", "df_index_resolver")
DOUBLES_US = 0.08
"""What thousands of doubles near 4 * 10^12 µs leave in the sums of the other tool."""


def numbers(shared: Path, tool: str) -> Iterator[dict[str, Any]]:
    document = json.loads((shared / "golden" / "golden.json").read_bytes())
    return (number for number in document["numbers"] if number["tool"].startswith(tool))


def test_exclusive_kinds_of_hta(shared: Path) -> None:
    golden: defaultdict[str, dict[str, float]] = defaultdict(dict)
    files: dict[str, list[str]] = {}
    for number in numbers(shared, "HTA 0.6.1 (all steps"):
        kind = number["metric"].partition("kernel_type:")[2]
        if kind and number["trace"] in WHOLE_MICROSECONDS:
            golden[number["trace"]][HTA_KINDS[kind]] = number["value"]
            paths = number["file"]
            files[number["trace"]] = [paths] if isinstance(paths, str) else paths

    assert set(golden) == set(WHOLE_MICROSECONDS)
    for trace, expected in golden.items():
        parts = [exclusive_ns(rank_of(shared / path)) for path in files[trace]]
        found = {kind: sum(part[kind] for part in parts) / 1000 for kind in expected}
        assert found == expected, trace


def test_busy_and_idle_of_the_reference(shared: Path) -> None:
    names = {"busy_us": "busy", "idle_us": "idle"}
    checked = 0
    for number in numbers(shared, "reference"):
        if number["metric"] in names and isinstance(number["file"], str):
            part = split_time(rank_of(shared / number["file"]))
            found = getattr(part, names[number["metric"]]) / 1000
            checked += 1
            assert math.isclose(found, number["value"], rel_tol=0, abs_tol=DOUBLES_US), number
    assert checked >= 20
