"""Exclusive kinds of device work, and what hides communication, against HTA and TraceLens.

HTA rounds to whole µs and keeps launched work only, so the traces of whole µs are compared, and
there it must agree to the last digit. TraceLens counts fills as computation: with them moved,
ours is its number.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from metrics.classify import any_name, distinct
from metrics.device_time import split_time
from metrics.intervals import Intervals, union
from metrics.rank_view import RankView
from metrics.temporal_breakdown import exclusive_ns
from metrics.view import View, ViewOptions
from parsers.job import open_job

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


@cache
def rank_of(path: Path) -> RankView:
    (rank,) = View(open_job(path, jobs=1), ViewOptions(span="trace")).ranks
    return rank


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


def fills(rank: RankView) -> Intervals:
    gpu = rank.trace.group("gpu")
    names = [i for i in distinct(gpu.name) if "memset" in rank.trace.text(i).lower()]
    rows = any_name(rank.trace.strings, gpu.name, names)
    return union(gpu.start_ns[rows], gpu.end_ns[rows])


def copies(rank: RankView) -> Intervals:
    gpu = rank.trace.group("gpu")
    names = [i for i in distinct(gpu.name) if "memcpy" in rank.trace.text(i).lower()]
    names += [i for i in distinct(gpu.name) if rank.trace.text(i).startswith("Copy")]
    rows = any_name(rank.trace.strings, gpu.name, names)
    return union(gpu.start_ns[rows], gpu.end_ns[rows])


def test_exposure_of_tracelens(shared: Path) -> None:
    checked = 0
    for number in numbers(shared, "TraceLens"):
        if not number["metric"].startswith("exposed_") or number["trace"] == "b200_eager":
            continue  # multimem_all_reduce_kernel is a collective here, computation there
        rank = rank_of(shared / number["file"])
        computing = rank.comp | fills(rank)
        exposed = (
            rank.comm - computing
            if number["metric"] == "exposed_comm_time_us"
            else copies(rank) - computing - rank.comm
        )
        checked += 1
        assert math.isclose(
            exposed.total_ns / 1000, number["value"], rel_tol=0, abs_tol=DOUBLES_US
        ), number
    assert checked >= 20


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
