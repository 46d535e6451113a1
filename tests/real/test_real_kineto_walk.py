"""Every public and recorded trace, against a plain json reading with exact decimals."""

from __future__ import annotations

import gc
import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.columns import Group
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.kineto.rank_builder import group_of

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))
FILES = sorted(
    str(path.relative_to(SHARED))
    for folder in ("traces", "recorded", "golden")
    for path in (SHARED / folder).rglob("*.json*")
    if path.is_file() and path.name not in ("golden.json", "training_metrics.json")
    if not path.name.startswith(("launcher_metadata", "torch_et"))
)


def reference(path: Path) -> tuple[list[dict[str, Any]], int] | None:
    """Events by the standard library, floats kept as text, and the base; None for no trace."""
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    try:
        document = json.loads(text, parse_float=str)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return (document, 0) if isinstance(document, list) else None
    events = document.get("traceEvents")
    base = int(document.get("baseTimeNanoseconds") or 0)
    return (events, base) if isinstance(events, list) else None


def exact_ns(number: int | str) -> int:
    """Microseconds in whole nanoseconds; decimals are slow, and few numbers need their rounding."""
    whole, point, decimals = str(number).partition(".")
    if not point and whole.isdecimal():
        return int(whole) * 1000
    if whole.isdecimal() and decimals.isdecimal() and len(decimals) <= 3:
        return int(whole) * 1000 + int(decimals.ljust(3, "0"))
    return int((Decimal(number) * 1000).quantize(Decimal(1), rounding=ROUND_HALF_UP))


# Most durations of a trace are among a few thousand values; hardly any start occurs twice.
duration_ns = lru_cache(maxsize=1 << 16)(exact_ns)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected: that walks the millions of objects of a trace again and again."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.shared
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("name", FILES or ["absent"])
def test_counts_and_times_equal_a_plain_reading(shared: Path, name: str) -> None:
    path = shared / name
    found = reference(path)
    if found is None:
        with pytest.raises(TraceError, match="no list of trace events"):
            read_kineto(path)
        return

    events, base = found
    trace = read_kineto(path)

    counted = Counter(f"{e.get('ph') or ''}:{e.get('cat') or ''}" for e in events)
    assert trace.counts == counted
    assert not trace.truncated
    of_category: dict[Any, list[tuple[int, int, str]]] = {}
    for event in events:
        if event.get("ph") == "X":
            row = (base + exact_ns(event["ts"]), duration_ns(event["dur"]), str(event["name"]))
            of_category.setdefault(event.get("cat"), []).append(row)
    expected: dict[Group, list[tuple[int, int, str]]] = {}
    for category, rows in of_category.items():
        expected.setdefault(group_of(category), []).extend(rows)
    pairs = counted.total() - sum(n for key, n in counted.items() if key[:2] not in ("B:", "E:"))
    if pairs:
        assert len(trace.group("other")) == pairs // 2
        return
    assert set(trace.events) == set(expected)
    strings = list(trace.strings)
    for group, rows in expected.items():
        columns = trace.group(group)
        ids = columns.name.tolist()
        assert min(ids) >= 0
        names = [strings[i] for i in ids]
        read = list(zip(columns.start_ns.tolist(), columns.dur_ns.tolist(), names, strict=True))
        assert read == sorted(read, key=lambda row: (row[0], -row[1]))
        assert sorted(read) == sorted(rows)
