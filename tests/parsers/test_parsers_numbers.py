"""Numbers as text: times, shares, counts and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.parsers import numbers


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"),
        (17, "17 ns"),
        (999.6, "1 us"),
        (1_500, "1.5 us"),
        (20_290_000, "20.3 ms"),
        (999_600_000, "1 s"),
        (-3_100, "-3.1 us"),
        (12_345_678_900, "12.3 s"),
        (99_960_000_000, "100 s"),
        (429_218_000_000, "7 min 9 s"),
        (7_200_000_000_000, "2 h"),
        (56_430_794_000_000_000, "653 days"),
    ],
)
def test_a_duration_has_three_digits_and_the_unit_a_person_would_use(ns: float, text: str) -> None:
    assert numbers.duration(ns) == text
    assert numbers.time_text(ns / 1e6) == text


@given(st.floats(1, 1e20))
def test_no_duration_has_an_exponent_or_a_four_digit_number_below_a_day(ns: float) -> None:
    number, unit = numbers.duration(ns).split(" ", 1)

    assert "e" not in number
    assert unit.endswith("days") or float(number) < 1000


def test_signed_durations() -> None:
    assert numbers.signed_duration(56_800) == "+56.8 us"
    assert numbers.signed_duration(0) == "0 s"


def test_a_compact_duration_is_the_same_without_a_blank() -> None:
    assert numbers.compact_duration(2_000_000) == "2ms"


@pytest.mark.parametrize(
    ("share", "text", "cell"),
    [
        (0.0, "0.0 %", "0.0 %"),
        (0.0004, "less than 0.1 %", "0.0 %"),
        (0.0849, "8.5 %", "8.5 %"),
        (0.0999, "10 %", "10.0 %"),
        (0.684, "68 %", "68.4 %"),
        (0.9961, "99.6 %", "99.6 %"),
        (0.9997, "100 %", "100.0 %"),
    ],
)
def test_shares(share: float, text: str, cell: str) -> None:
    assert numbers.percent(share) == text
    assert numbers.percent_cell(share) == cell
    assert len(numbers.percent_in_six(share)) <= 6


def test_a_share_next_to_nothing_keeps_the_column_of_findings() -> None:
    assert numbers.percent_in_six(0.0004) == "<0.1 %"


@pytest.mark.parametrize(
    ("ns", "step", "text"),
    [
        (856_000_000, 2_000_000, "856 ms"),
        (856_200_000, 200_000, "856.2 ms"),
        (4_420_000_000, 10_000_000, "4.42 s"),
        (4_420_000_000, 1_000_000_000, "4 s"),
        (0, 1, "0"),
        (1_234_567, 1, "1.234567 ms"),
    ],
)
def test_an_instant_has_the_digits_that_tell_ticks_apart(ns: int, step: int, text: str) -> None:
    assert numbers.instant(ns, step) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "--"),
        (84, "84"),
        (123_456, "123,456"),
        (0.0, "0.000"),
        (0.1495, "0.149"),
        (18.42, "18.42"),
        (412.64, "412.6"),
        (1234.56, "1,234.6"),
        (98765.4, "98,765"),
        (0.00001234, "1.23e-05"),
    ],
)
def test_quantity(value: float | None, text: str) -> None:
    assert numbers.quantity(value) == text


def test_sizes() -> None:
    assert numbers.decimal_size(999) == "999 B"
    assert numbers.decimal_size(999_600) == "1 MB"
    assert numbers.decimal_size(41_234_567_890) == "41.2 GB"
    assert numbers.decimal_size(41_000_000_000) == "41 GB"
    assert numbers.decimal_size(5_000_000_000_000) == "5 TB"
    assert numbers.binary_size(268_435_456) == "256 MiB"
    assert numbers.binary_size(1536) == "1.5 KiB"
