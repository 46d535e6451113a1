"""Formatting of numbers."""

from __future__ import annotations

import pytest

from ccltui.draw import numbers


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (17, "17ns"),
        (1_500, "1.50us"),
        (20_290_000, "20.29ms"),
        (-3_100, "-3.10us"),
        (12_345_678_900, "12.35s"),
    ],
)
def test_duration(ns: int, text: str) -> None:
    assert numbers.duration(ns) == text


def test_signed_and_short_durations() -> None:
    assert numbers.signed_duration(56_800) == "+56.80us"
    assert numbers.signed_duration(0) == "0ns"
    assert numbers.short_duration(2_000_000) == "2ms"
    assert numbers.short_duration(1_500) == "1.5us"


@pytest.mark.parametrize(
    ("ns", "step", "text"),
    [
        (856_000_000, 2_000_000, "856ms"),
        (856_200_000, 200_000, "856.2ms"),
        (4_420_000_000, 10_000_000, "4.42s"),
        (4_420_000_000, 1_000_000_000, "4s"),
        (0, 1, "0"),
        (1_234_567, 1, "1.234567ms"),
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
    assert numbers.decimal_size(41_000_000_000) == "41.0 GB"
    assert numbers.decimal_size(5_000_000_000_000) == "5.0 TB"
    assert numbers.binary_size(268_435_456) == "256 MiB"
    assert numbers.binary_size(1536) == "1.5 KiB"
