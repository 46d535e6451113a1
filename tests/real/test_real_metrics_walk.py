"""Every metric on every public trace: an answer or a reason, and nothing impossible."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from what_holds import is_share

from ccltui.metrics.findings.rank_time.partition import PARTS
from ccltui.metrics.registry import metrics
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job, start_job
from ccltui.parsers.window import Window

pytestmark = pytest.mark.shared

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))

SIGNED = ("windows", "clock", "lag_aligned", "offset", "lead", "delta", "change", "excess", "saved")
"""Parts of a key under which a time may be negative: overlaps, and clocks against each other."""


def directories() -> list[Path]:
    """Folders with files, below the public traces, the recorded runs and the captures of nsys."""
    return [
        Path(folder)
        for top in ("recorded", "traces", "nsys")
        for folder, _, files in sorted(os.walk(SHARED / top))
        if files
    ]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            assert isinstance(key, str), f"{path}: key {key!r}"
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner, path)
    else:
        yield path, value


def check(result: Result) -> list[str]:
    """What is wrong with a result."""
    wrong = []
    if result.reason == "internal_error":
        wrong.append(result.reasons[0].message)
    document = result.to_document()
    json.dumps(document, allow_nan=False)
    known = result.value is not None
    if (known and result.status == "unavailable") or (not known and result.status == "ok"):
        wrong.append(f"value {result.value} with status {result.status}")
    if result.status == "unavailable" and not result.reasons:
        wrong.append("unavailable without a reason")
    for path, value in leaves(dict(result.details)):
        if isinstance(value, int | float) and not isinstance(value, bool):
            wrong += [f"{path} is {value}"] * is_impossible(path, value)
    return [f"{result.metric}: {text}" for text in wrong]


def is_impossible(path: str, value: float) -> bool:
    """No number, a negative time, or a share that is none."""
    if not math.isfinite(value):
        return True
    time = path.endswith(("_ms", "_us", "_s", "_ns", "_bytes", ".ms"))
    if value < 0 and time and not any(word in path for word in SIGNED):
        return True
    return is_share(path) and not 0 <= value <= 1 + 1e-9


def check_all(view: View) -> list[str]:
    """What is wrong with the results of all metrics, of the steps and of the whole."""
    spans = (view, view.with_options(span="trace"))
    wrong = [text for one in spans for m in metrics().values() for text in check(m.run(one))]
    return wrong + [text for one in spans for text in undivided(one)]


def undivided(view: View) -> list[str]:
    """Where idle, computing, communicating, both and copying are not the measured time."""
    parts = metrics()["temporal_breakdown"].run(view).details
    if parts["window_ms"] is None:
        return []
    rows = {"all": parts, **parts["per_rank"]}
    totals = {label: sum(row[f"{part}_ms"] for part in PARTS) for label, row in rows.items()}
    return [
        f"{label}: {total} of {rows[label]['window_ms']} ms"
        for label, total in totals.items()
        if not math.isclose(total, rows[label]["window_ms"], rel_tol=1e-12, abs_tol=1e-9)
    ]


def named(path: Path) -> str:
    return "-".join(path.parts[-2:])


@pytest.mark.parametrize("directory", directories() or [SHARED], ids=named)
def test_every_metric(shared: Path, directory: Path) -> None:
    assert directory.is_relative_to(shared)
    assert check_all(View(open_job(directory, jobs=1))) == []


def test_every_metric_of_every_trace_that_is_no_rank_of_a_job(shared: Path) -> None:
    """Traces alone: those of folders with several of one rank or of none, and of other captures.

    A trace that is alone in its folder is the whole job of `test_every_metric`.
    """
    captures = [start_job(folder).capture.files for folder in directories()]
    of_jobs = {
        f.real_path
        for files in captures
        if len(files) == 1 or len({f.rank for f in files}) > 1
        for f in files
    }
    traces = [
        file
        for top in ("recorded", "traces", "nsys")
        for file in start_job(shared / top).discovery.files
        if file.kind in ("kineto", "nsys_sqlite", "xla_trace") and file.duplicate_of is None
    ]
    alone = [file for file in traces if file.real_path not in of_jobs]

    assert len(traces) >= 100
    assert len(alone) >= 8
    wrong = {file.path: check_all(View(open_job(file.real_path, jobs=1))) for file in alone}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_what_a_healthy_job_is_said_to_miss_is_marked_as_doubtful(shared: Path) -> None:
    path = shared / "recorded/titan022_llama_tp2/profile_trace/iteration_5"
    result = metrics()["collective_mismatches"].run(View(open_job(path, jobs=1)))

    assert result.value == 0 or (result.status, result.reason) == (
        "partial",
        "unmatched_collectives",
    )


def test_two_windows_make_the_whole_of_a_real_job(shared: Path) -> None:
    job = open_job(shared / "traces" / "astra-sim" / "megatron-tp8", jobs=1)
    whole = View(job, ViewOptions(span="trace"))
    middle = 200_000_000
    halves = [whole.with_options(window=Window(a, b)) for a, b in ((None, middle), (middle, None))]

    for name, key in (
        ("idle_ratio", "idle_ms"),
        ("exposed_communication", "exposed_ms"),
        ("memory_transfer", "uncovered_mem_ms"),
        ("temporal_breakdown", "comp_only_ms"),
        ("idle_causes", "host_late_ms"),
    ):
        found = [metrics()[name].run(half).details[key] for half in halves]
        assert sum(found) == pytest.approx(metrics()[name].run(whole).details[key]), name
