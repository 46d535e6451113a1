"""Test the conversion of written microseconds to exact nanoseconds."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.text.json_text import nanoseconds

pytestmark = pytest.mark.usefixtures("decoder")


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        (1_700_000_000_123_456, 1_700_000_000_123_456_000),
        ("1700000000123456.789", 1_700_000_000_123_456_789),
        ("4389490124076.093", 4_389_490_124_076_093),
        ("106.31199999999808", 106_312),
        ("0.0005", 1),
        ("-0.0005", -1),
        ("0.0004999", 0),
        ("1.7e15", 1_700_000_000_000_000_000),
        ("1E3", 1_000_000),
        ("1.7e3", 1_700_000),
        ("-2.250", -2_250),
        ("123.5", 123_500),
        ("12", 12_000),
        (0, 0),
        (True, None),
        (None, None),
        ([1], None),
        ("", None),
        ("abc", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e400", None),
        (10**30, None),
        ("9e18", None),
    ],
)
def test_text_to_nanoseconds(written: object, ns: int | None) -> None:
    assert nanoseconds(written) == ns


@given(st.decimals(min_value=-(10**15), max_value=10**15, allow_nan=False, places=None))
def test_equals_exact_decimal_arithmetic(number: Decimal) -> None:
    expected = int((number * 1000).quantize(Decimal(1), rounding=ROUND_HALF_UP))

    assert nanoseconds(f"{number:f}") == expected
    assert nanoseconds(str(number)) == expected


def test_base_time_after_the_events_is_used(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents":[{"ph":"X","name":"a","pid":0,"tid":0,"ts":1000.5,"dur":0.001}],'
        '"baseTimeNanoseconds":1700000000000000000}'
    )

    trace = read_kineto(path)

    assert trace.group("other").start_ns.tolist() == [1_700_000_000_001_000_500]
    assert trace.group("other").dur_ns.tolist() == [1]
    assert trace.base_ns == 1_700_000_000_000_000_000


def test_events_without_usable_times_are_dropped_counted_and_located(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    good = {"ph": "X", "name": "good", "pid": 0, "tid": 0, "ts": 1, "dur": 0}
    events = [
        good,
        {"ph": "X", "name": "no dur", "ts": 1},
        {"ph": "X", "name": "negative", "ts": 1, "dur": -1},
        {"ph": "X", "name": "no ts", "dur": 1},
    ]
    text = json.dumps(events)
    path.write_text(text)

    trace = read_kineto(path)

    assert len(trace.group("other")) == 1
    assert trace.counts == {"X:": 4}
    assert [(note.code, note.offset, note.count) for note in trace.notes] == [
        ("bad_time", text.index('{"ph": "X", "name": "no dur"'), 2),
        ("negative_duration", text.index('{"ph": "X", "name": "negative"'), 1),
    ]
