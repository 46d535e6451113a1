"""Public and recorded traces by both decoders, and by a plain json reading with exact decimals."""

from __future__ import annotations

import gc
import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccltui.parsers.columns import CollectiveArgs, Events, Group, RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.kineto.rank_builder import group_of
from ccltui.parsers.kineto.scanner import typed_event

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))
NO_TRACES = ("golden.json", "training_metrics.json", "launcher_metadata", "torch_et")


def files() -> list[str]:
    """Public and recorded traces; of the ranks of one job the smallest and the largest file.

    One program wrote all of them: the others have nothing that these two have not.
    """
    alike: dict[tuple[Path, str], list[Path]] = {}
    for folder in ("traces", "recorded", "golden"):
        for path in (SHARED / folder).rglob("*.json*"):
            if path.is_file() and not path.name.startswith(NO_TRACES):
                key = path.parent, re.sub(r"\d+", "", path.name)
                alike.setdefault(key, []).append(path)
    for paths in alike.values():
        paths.sort(key=lambda path: (path.stat().st_size, path.name))
    kept = {path for paths in alike.values() for path in (paths[0], paths[-1])}
    return sorted(str(path.relative_to(SHARED)) for path in kept)


FILES = files()


def read_by_both(path: Path, monkeypatch: pytest.MonkeyPatch) -> RankTrace:
    """The trace, which both decoders read equally; or the error that both raise."""
    monkeypatch.setenv("CCLTUI_ACCEL", "0")
    if not typed_event.compiled():
        return read_kineto(path)
    try:
        general = read_kineto(path)
    except TraceError as error:
        monkeypatch.setenv("CCLTUI_ACCEL", "1")
        with pytest.raises(TraceError, match=f"^{re.escape(str(error))}$"):
            read_kineto(path)
        raise
    monkeypatch.setenv("CCLTUI_ACCEL", "1")
    trace = read_kineto(path, chunk_bytes=300_007)  # pieces that end within events
    assert_equal(trace, general)
    return trace


def assert_equal(trace: RankTrace, expected: RankTrace) -> None:
    """All columns and side tables are the same."""
    assert list(trace.strings) == list(expected.strings)
    assert list(trace.events) == list(expected.events)
    for group, events in expected.events.items():
        for column, _ in (*Events.COLUMNS, *Events.SPARSE):
            np.testing.assert_array_equal(
                getattr(trace.group(group), column), getattr(events, column), f"{group} {column}"
            )
    for column, _ in CollectiveArgs.COLUMNS:
        np.testing.assert_array_equal(
            getattr(trace.collective_args, column), getattr(expected.collective_args, column)
        )
    for fact in ("tracks", "process_groups", "devices", "counts", "notes", "rank", "truncated"):
        assert getattr(trace, fact) == getattr(expected, fact)


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
def test_counts_and_times_equal_a_plain_reading(
    shared: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared / name
    found = reference(path)
    if found is None:
        with pytest.raises(TraceError, match="no list of trace events"):
            read_by_both(path, monkeypatch)
        return

    events, base = found
    trace = read_by_both(path, monkeypatch)

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
