"""Every metric on every public trace: an answer or a reason, and nothing impossible."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metrics.device_time import PARTS
from metrics.registry import metrics
from metrics.result import Result
from metrics.view import View, ViewOptions
from parsers.job import open_job

pytestmark = pytest.mark.shared

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))

SIGNED = ("windows", "clock", "lag_aligned", "offset", "lead", "delta", "change", "excess", "saved")
"""Parts of a key under which a time may be negative: overlaps, and clocks against each other."""


def directories() -> list[Path]:
    """Folders with files, below the public traces and the recorded runs."""
    return [
        Path(folder)
        for top in ("recorded", "traces")
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
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if not math.isfinite(value):
            wrong.append(f"{path} is {value}")
        time = path.endswith(("_ms", "_us", "_s", "_ns", "_bytes"))
        if value < 0 and time and not any(word in path for word in SIGNED):
            wrong.append(f"{path} is {value}")
    return [f"{result.metric}: {text}" for text in wrong]


@pytest.mark.parametrize(
    "directory", directories() or [SHARED], ids=lambda path: "-".join(path.parts[-2:])
)
def test_every_metric(shared: Path, directory: Path) -> None:
    assert directory.is_relative_to(shared)
    job = open_job(directory, jobs=1)
    view = View(job)
    whole = view.with_options(span="trace")

    wrong = [text for metric in metrics().values() for text in check(metric.run(view))]
    assert wrong == []

    for one in (view, whole):
        parts = metrics()["temporal_breakdown"].run(one).details
        if parts["window_ms"] is not None:
            total = sum(round(parts[f"{part}_ms"] * len(parts["per_rank"]) * 1e6) for part in PARTS)
            assert total == pytest.approx(parts["window_ms"] * len(parts["per_rank"]) * 1e6, abs=8)


def test_two_windows_make_the_whole_of_a_real_job(shared: Path) -> None:
    from parsers.window import Window

    job = open_job(shared / "traces" / "astra-sim" / "megatron-tp8", jobs=1)
    whole = View(job, ViewOptions(span="trace"))
    middle = 200_000_000
    halves = [whole.with_options(window=Window(a, b)) for a, b in ((None, middle), (middle, None))]

    for name, key in (
        ("idle_ratio", "idle_ms"),
        ("exposed_communication", "exposed_comm_ms"),
        ("memory_transfer", "uncovered_mem_ms"),
        ("temporal_breakdown", "comp_only_ms"),
        ("idle_causes", "host_late_ms"),
    ):
        found = [metrics()[name].run(half).details[key] for half in halves]
        assert sum(found) == pytest.approx(metrics()[name].run(whole).details[key]), name
